// What every op computes, in f64, by the plainest loops: the yardstick of the op tests on any device.
#pragma once

#include <vector>

#include "program/op.h"
#include "program/tensor.h"

namespace spillway {

struct Array {
  Shape shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(Shape of)
      : shape(std::move(of)), values(element_count(shape)), width_(element_count(shape) / shape[0]) {}
  [[nodiscard]] int64_t rows() const { return shape[0]; }
  [[nodiscard]] int64_t width() const { return width_; }  // elements of a row, all dims but the first
  double& at(int64_t row, int64_t column) { return values[row * width_ + column]; }
  [[nodiscard]] double at(int64_t row, int64_t column) const {
    return values[row * width_ + column];
  }

 private:
  int64_t width_ = 0;
};
using Arrays = std::vector<Array>;

// The outputs of an op. Tokens and targets are numbers too. Ops that change their outputs in place
// (put_rows, adamw) take what is there before as further inputs, one an output.
[[nodiscard]] Arrays reference(OpKind kind, const Arrays& in, const Attrs& attrs);

}  // namespace spillway
