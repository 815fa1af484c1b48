// The backward references against central differences of the forward references, in f64. With the
// op tests this ties every kernel to the derivative of what its forward computes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/device/op_case.h"

namespace spillway {
namespace {

using enum OpKind;

// sum(weights * first output): a scalar whose gradient in the output is `weights`.
double weighted(OpKind kind, const Arrays& in, const Attrs& attrs, const Array& weights) {
  const Array y = reference(kind, in, attrs)[0];
  double sum = 0;
  for (size_t i = 0; i < y.values.size(); ++i) sum += weights.values[i] * y.values[i];
  return sum;
}

// `gradient` is what the backward op says of input `which`.
void expect_gradient(OpKind kind, Arrays in, const Attrs& attrs, const Array& weights, int which,
                     const Array& gradient) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(gradient.values.size(), in[which].values.size());
  for (size_t i = 0; i < gradient.values.size(); ++i) {
    double& x = in[which].values[i];
    const double at = x;
    x = at + kStep;
    const double above = weighted(kind, in, attrs, weights);
    x = at - kStep;
    const double below = weighted(kind, in, attrs, weights);
    x = at;
    const double numeric = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient.values[i], numeric, 1e-7 * (1 + std::abs(numeric)))
        << "element " << i << " of input " << which;
  }
}

TEST(Gradient, Embedding) {
  Random random(1);
  const Arrays in = {random.integers({7}, 0, 4), random.normal({4, 3})};
  const Array dy = random.normal({7, 3});
  const Arrays grads = reference(kEmbeddingBwd, {in[0], dy}, {{Attr::kEnd, 4}});
  expect_gradient(kEmbedding, in, {}, dy, 1, grads[0]);
}

TEST(Gradient, RmsNorm) {
  Random random(1);
  const Attrs attrs = {{Attr::kEps, 1e-2}};
  const Arrays in = {random.normal({3, 5}), random.normal({5})};
  const Array dy = random.normal({3, 5});
  const Array rstd = reference(kRmsNorm, in, attrs)[1];
  const Arrays grads = reference(kRmsNormBwd, {in[0], in[1], rstd, dy}, attrs);
  for (int i : {0, 1}) expect_gradient(kRmsNorm, in, attrs, dy, i, grads[i]);
}

TEST(Gradient, Rope) {
  for (int interleaved : {0, 1}) {
    Random random(1);
    const Attrs attrs = {{Attr::kHeads, 2}, {Attr::kHeadDim, 6}, {Attr::kRopeDim, 4},
                         {Attr::kInterleaved, interleaved}};
    const Arrays in = {random.normal({6, 12}), random.normal({3, 2, 2})};
    const Array dy = random.normal({6, 12});
    const Arrays grads = reference(kRopeBwd, {dy, in[1]}, attrs);
    expect_gradient(kRope, in, attrs, dy, 0, grads[0]);
  }
}

TEST(Gradient, Swiglu) {
  Random random(1);
  const Arrays in = {random.normal({3, 5}), random.normal({3, 5})};
  const Array dy = random.normal({3, 5});
  const Arrays grads = reference(kSwigluBwd, {in[0], in[1], dy}, {});
  for (int i : {0, 1}) expect_gradient(kSwiglu, in, {}, dy, i, grads[i]);
}

TEST(Gradient, Rows) {
  Random random(1);
  const Attrs attrs = {{Attr::kBegin, 2}, {Attr::kEnd, 4}};
  const Arrays in = {random.normal({5, 3})};
  const Array dy = random.normal({2, 3});
  expect_gradient(kRows, in, attrs, dy, 0, reference(kPutRows, {dy, Array({5, 3})}, attrs)[0]);
}

TEST(Gradient, Linear) {
  Random random(1);
  const Arrays in = {random.normal({3, 4}), random.normal({5, 4})};
  const Array dy = random.normal({3, 5});
  expect_gradient(kLinear, in, {}, dy, 0, reference(kLinearDgrad, {dy, in[1]}, {})[0]);
  expect_gradient(kLinear, in, {}, dy, 1, reference(kLinearWgrad, {dy, in[0]}, {})[0]);
}

TEST(Gradient, Attention) {
  Random random(1);
  const Attrs attrs = {{Attr::kHeads, 4},    {Attr::kKvHeads, 2}, {Attr::kHeadDim, 3},
                       {Attr::kVHeadDim, 2}, {Attr::kSeq, 4},     {Attr::kScale, 0.6}};
  const Arrays in = {random.normal({8, 12}), random.normal({8, 6}),
                     random.normal({8, 4})};
  const Array dy = random.normal({8, 8});
  const Arrays out = reference(kAttention, in, attrs);
  const Arrays grads = reference(kAttentionBwd, {in[0], in[1], in[2], out[0], out[1], dy}, attrs);
  for (int i : {0, 1, 2}) expect_gradient(kAttention, in, attrs, dy, i, grads[i]);
}

TEST(Gradient, CrossEntropy) {
  Random random(1);
  Arrays in = {random.normal({4, 5}), random.integers({4}, 0, 5), random.normal({4})};
  in[1].values[2] = -1;
  Array one({1});
  one.values = {1};
  const Array lse = reference(kCrossEntropy, in, {})[1];
  const Arrays grads = reference(kCrossEntropyBwd, {in[0], lse, in[1], in[2]}, {});
  expect_gradient(kCrossEntropy, in, {}, one, 0, grads[0]);
}

}  // namespace
}  // namespace spillway
