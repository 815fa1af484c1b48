// What an instruction takes of a GPU while it runs, from its shapes and the hardware's tables.
#pragma once

#include <array>

#include "device/hardware.h"
#include "device/sim/assumptions.h"
#include "device/sim/rank_class.h"
#include "device/sim/tables.h"
#include "parallel/mesh.h"
#include "program/cost_model.h"
#include "program/schedule.h"

namespace spillway::sim {

// What instructions of different streams share.
enum class Resource : uint8_t {
  kMultiprocessors,
  kHbm,
  kLinkOut, kLinkIn,  // host link, each direction
  kHostMemory,        // of the socket, this GPU's fair share: its neighbours do the same at the same time
  kNvlink,
  kNic,
};
inline constexpr int kResourceCount = 7;

struct Cost {
  double seconds = 0;  // alone
  std::array<double, kResourceCount> share = {};  // of each resource, while it runs alone; 1 at most

  [[nodiscard]] double& of(Resource resource) { return share[static_cast<size_t>(resource)]; }
  [[nodiscard]] double of(Resource resource) const { return share[static_cast<size_t>(resource)]; }
  // The same work over a longer time. Multiprocessors are held all along.
  void stretch(double longer);
};

// Costs of the instructions of one Schedule on the ranks of a class. Hardware, rates and Schedule must
// outlive it.
class OpCosts {
 public:
  OpCosts(const Hardware& hardware, const Rates& rates, const RankClass& ranks,
          const Schedule& schedule, const Assumptions& assumptions = {})
      : hardware_(hardware), rates_(rates), ranks_(ranks), schedule_(schedule),
        assumptions_(assumptions) {}

  [[nodiscard]] Cost operator()(const Instr& instr) const;

 private:
  [[nodiscard]] Cost copy(const Instr& instr) const;
  [[nodiscard]] Cost collective(const Instr& instr) const;
  [[nodiscard]] Cost compute(const Instr& instr) const;
  [[nodiscard]] double exchanged_bytes(const Instr& instr) const;
  [[nodiscard]] double product_seconds(const Instr& instr, double flops) const;
  [[nodiscard]] double grouped_seconds(const Instr& instr) const;
  [[nodiscard]] double cast_seconds(const Instr& instr) const;
  [[nodiscard]] double one_hot_seconds(const Instr& instr) const;
  [[nodiscard]] double attention_seconds(const Instr& instr, double flops) const;
  [[nodiscard]] const Buffer& in(const Instr& instr, size_t i) const;
  [[nodiscard]] const Buffer& out(const Instr& instr, size_t i) const;

  const Hardware& hardware_;
  const Rates& rates_;
  const RankClass& ranks_;
  const Schedule& schedule_;
  Assumptions assumptions_;
};

// The same costs for the scheduling passes: of mesh.rank(), with balanced routing. Hardware must outlive
// it.
class SimCostModel : public CostModel {
 public:
  SimCostModel(const Hardware& hardware, const Mesh& mesh, const Assumptions& assumptions = {});
  [[nodiscard]] double seconds(const Schedule& schedule, const Instr& instr) const override;

 private:
  const Hardware& hardware_;
  Rates rates_;
  RankClass ranks_;
  Assumptions assumptions_;
};

}  // namespace spillway::sim
