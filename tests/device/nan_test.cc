// A NaN that enters an op must leave it: wherever the reference says NaN, the kernel says NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/device/op_case.h"

namespace spillway {
namespace {

using enum OpKind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Puts a NaN into the middle of one f32 or bf16 input after the other.
void expect_nan_leaves(OpCase test) {
  for (size_t i = 0; i < test.in.size(); ++i) {
    if (test.in_types[i] == DType::kI32) continue;
    SCOPED_TRACE(test.text() + ", NaN in input " + std::to_string(i));
    OpCase broken = test;
    broken.in[i].values[broken.in[i].values.size() / 2] = kNan;
    const Arrays expected = reference(test.kind, broken.in, test.attrs);
    const Arrays got = run_on_cpu(broken, expected, false, 2).out;
    int lost = 0, nans = 0;
    for (size_t o = 0; o < expected.size(); ++o) {
      for (size_t j = 0; j < expected[o].values.size(); ++j) {
        if (!std::isnan(expected[o].values[j])) continue;
        ++nans;
        if (!std::isnan(got[o].values[j])) ++lost;
      }
    }
    EXPECT_GT(nans, 0);
    EXPECT_EQ(lost, 0) << "of " << nans;
  }
}

OpCase random_case(OpKind kind, const Attrs& attrs, const std::vector<Shape>& in, DType dtype,
                   int outputs) {
  Random random(1);
  OpCase test{.kind = kind, .attrs = attrs};
  for (const Shape& shape : in) test.add_input(random.normal(shape), dtype);
  test.out_types.assign(outputs, dtype);
  return test;
}

class NanLeaves : public ::testing::TestWithParam<DType> {};

TEST_P(NanLeaves, RowWise) {
  const DType dtype = GetParam();
  const Shape x = {5, 40};
  expect_nan_leaves(random_case(kAdd, {}, {x, x}, dtype, 1));
  expect_nan_leaves(random_case(kSwiglu, {}, {x, x}, dtype, 1));
  expect_nan_leaves(random_case(kSwigluBwd, {}, {x, x, x}, dtype, 2));
  OpCase norm = random_case(kRmsNorm, {{Attr::kEps, 1e-5}}, {x, {40}}, dtype, 2);
  norm.out_types[1] = DType::kF32;
  expect_nan_leaves(norm);
  OpCase norm_bwd = random_case(kRmsNormBwd, {}, {x, {40}, {5}, x}, dtype, 2);
  norm_bwd.in_types[2] = DType::kF32;
  expect_nan_leaves(norm_bwd);
  OpCase squares = random_case(kSumSquares, {}, {x}, dtype, 1);
  squares.out_types[0] = DType::kF32;
  expect_nan_leaves(squares);
}

TEST_P(NanLeaves, Products) {
  const DType dtype = GetParam();
  expect_nan_leaves(random_case(kLinear, {}, {{70, 33}, {40, 33}}, dtype, 1));
  expect_nan_leaves(random_case(kLinearDgrad, {}, {{70, 33}, {33, 40}}, dtype, 1));
  expect_nan_leaves(random_case(kLinearWgrad, {}, {{70, 33}, {70, 40}}, dtype, 1));
}

TEST_P(NanLeaves, Attention) {
  const DType dtype = GetParam();
  const Attrs attrs = {{Attr::kHeads, 2},    {Attr::kKvHeads, 1}, {Attr::kHeadDim, 8},
                       {Attr::kVHeadDim, 8}, {Attr::kSeq, 100},   {Attr::kScale, 0.3}};
  OpCase test = random_case(kAttention, attrs, {{100, 16}, {100, 8}, {100, 8}}, dtype, 2);
  test.out_types[1] = DType::kF32;
  expect_nan_leaves(test);
  OpCase backward = random_case(
      kAttentionBwd, attrs, {{100, 16}, {100, 8}, {100, 8}, {100, 16}, {100, 2}, {100, 16}}, dtype,
      3);
  backward.in_types[4] = DType::kF32;
  expect_nan_leaves(backward);
}

TEST_P(NanLeaves, CrossEntropy) {
  Random random(1);
  OpCase test{.kind = kCrossEntropy, .out_types = {DType::kF32, DType::kF32}};
  test.add_input(random.normal({3, 1500}), GetParam());
  test.add_input(random.integers({3}, 0, 1500), DType::kI32);
  test.add_input(random.normal({4}), DType::kF32);
  test.in[2].values[0] = 0.5;
  OpCase broken = test;
  broken.in[0].values[1600] = kNan;
  const Arrays out = run_on_cpu(broken, reference(kCrossEntropy, test.in, {}), false, 1).out;
  EXPECT_TRUE(std::isnan(out[0].values[0]));
  EXPECT_FALSE(std::isnan(out[1].values[0]));
  EXPECT_TRUE(std::isnan(out[1].values[1]));
}

INSTANTIATE_TEST_SUITE_P(Types, NanLeaves, ::testing::Values(DType::kF32, DType::kBF16));

}  // namespace
}  // namespace spillway
