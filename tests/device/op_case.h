// An op on fresh random inputs, and the check of a cpu kernel against the f64 reference.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "program/op.h"
#include "tests/device/reference.h"

namespace spillway {

// Rounds to what a tensor of this type can hold.
[[nodiscard]] double rounded(double value, DType dtype);

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  [[nodiscard]] Array normal(Shape shape, DType dtype = DType::kF32);
  [[nodiscard]] Array integers(Shape shape, int64_t begin, int64_t end);  // in [begin, end)

 private:
  std::mt19937 engine_;
};

struct OpCase {
  OpKind kind;
  Attrs attrs = {};
  Arrays in = {};  // values the types can hold
  std::vector<DType> in_types = {};
  std::vector<DType> out_types = {};
  // Ops that change their outputs in place: the outputs before. Else outputs start as NaN bytes, or
  // as random values to accumulate into.
  Arrays before = {};

  void add_input(Array values, DType dtype);
  [[nodiscard]] std::string text() const;  // for messages
};

// Bytes of every output after one run.
using OutputBytes = std::vector<std::vector<std::byte>>;

// Runs the cpu kernel on a guarded copy of the case with `threads` threads, once.
struct OpRun {
  OutputBytes bytes;
  Arrays out;  // the same as numbers
};
[[nodiscard]] OpRun run_on_cpu(const OpCase& test, const Arrays& outputs_before, bool accumulate,
                               int threads);

// Compares with the reference within the op table's tolerance, without and with accumulation, and
// bit for bit between 1, 2 and 3 threads and two runs.
void check(const OpCase& test);

}  // namespace spillway
