// Rows of a hardware file's tables from times of components.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "device/hardware.h"
#include "trainer/component.h"

namespace spillway {

class ComponentTables {
 public:
  // Components that the tables do not tell apart are averaged; grouped products and attention, whose
  // keys leave out how much there is of them, keep the last.
  void add(const Component& component, double seconds);

  // Fills the tables of products, attention and memory-bound ops, and the peaks: what the fastest row
  // reaches. Rows that lack a direction are left out. `source` says how they were measured.
  void fill(Hardware& hardware, const std::string& source) const;

 private:
  struct Rate {
    double work = 0, seconds = 0;  // sums, of FLOP or bytes
    [[nodiscard]] double per_second() const { return seconds > 0 ? work / seconds : 0; }
  };
  using Shape3 = std::array<double, 3>;

  void add_grouped(const Component& component, double seconds);

  std::map<Shape3, Rate> bf16_, f32_;                            // m, n, k
  std::map<std::array<double, 4>, std::array<Rate, 3>> grouped_;  // forward, dgrad, wgrad
  std::map<Shape3, std::array<Rate, 2>> attention_;               // forward, backward
  std::map<std::pair<OpKind, double>, Rate> memory_;
};

}  // namespace spillway
