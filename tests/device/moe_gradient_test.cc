// The backward references of latent attention and mixture of experts against central differences of
// the forward ones, in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/device/moe_case.h"

namespace spillway {
namespace {

using enum OpKind;

// Expects `gradient` to be that of sum(d.y * first output) in input `which`.
void expect_gradient(OpKind kind, Arrays in, const Attrs& attrs, const Array& dy, size_t which,
                     const Array& gradient) {
  constexpr double kStep = 1e-5;
  const auto weighted = [&] {
    const Array y = reference(kind, in, attrs)[0];
    double sum = 0;
    for (size_t i = 0; i < y.values.size(); ++i) sum += dy.values[i] * y.values[i];
    return sum;
  };
  ASSERT_EQ(gradient.values.size(), in[which].values.size());
  for (size_t i = 0; i < gradient.values.size(); ++i) {
    double& x = in[which].values[i];
    const double at = x;
    x = at + kStep;
    const double above = weighted();
    x = at - kStep;
    const double numeric = (above - weighted()) / (2 * kStep);
    x = at;
    EXPECT_NEAR(gradient.values[i], numeric, 1e-7 * (1 + std::abs(numeric)))
        << "element " << i << " of input " << which;
  }
}

TEST(MoeGradient, Columns) {
  Random random(1);
  const Attrs attrs = {{Attr::kBegin, 2}, {Attr::kEnd, 5}};
  const Array x = random.normal({4, 7}), dy = random.normal({4, 3});
  expect_gradient(kColumns, {x}, attrs, dy, 0,
                  reference(kPutColumns, {dy, Array({4, 7})}, attrs)[0]);
}

TEST(MoeGradient, Concat) {
  Random random(1);
  const Array a = random.normal({4, 3}), b = random.normal({4, 2}), dy = random.normal({4, 5});
  const Attrs left = {{Attr::kBegin, 0}, {Attr::kEnd, 3}};
  const Attrs right = {{Attr::kBegin, 3}, {Attr::kEnd, 5}};
  expect_gradient(kConcat, {a, b}, {}, dy, 0, reference(kColumns, {dy}, left)[0]);
  expect_gradient(kConcat, {a, b}, {}, dy, 1, reference(kColumns, {dy}, right)[0]);
}

TEST(MoeGradient, LatentAttention) {
  Random random(2);
  const Attrs attrs = {
      {Attr::kHeads, 2}, {Attr::kHeadDim, 5}, {Attr::kRopeDim, 2}, {Attr::kVHeadDim, 4}};
  const Arrays in = {random.normal({3, 14}), random.normal({3, 2})};
  const Array d_key = random.normal({3, 10}), d_value = random.normal({3, 8});
  const Arrays d = reference(kMlaKeyBwd, {d_key, Array({3, 14}), Array({3, 2})}, attrs);
  expect_gradient(kMlaKey, in, attrs, d_key, 0, d[0]);
  expect_gradient(kMlaKey, in, attrs, d_key, 1, d[1]);
  expect_gradient(kMlaValue, {in[0]}, attrs, d_value, 0,
                  reference(kMlaValueBwd, {d_value, Array({3, 14})}, attrs)[0]);
}

TEST(MoeGradient, Router) {
  for (bool sigmoid : {false, true}) {
    for (bool normalize : {false, true}) {
      Random random(3);
      Attrs attrs = {{Attr::kTopK, 3},         {Attr::kGroups, 4},
                     {Attr::kTopkGroups, 2},   {Attr::kGroupTop, 2},
                     {Attr::kSigmoid, sigmoid}, {Attr::kNormalize, normalize},
                     {Attr::kScale, 2.5},      {Attr::kBalanced, 0},
                     {Attr::kSeq, 4},          {Attr::kBalanceLoss, 0.3},
                     {Attr::kZLoss, 0.1}};
      const Array logits = random.normal({8, 8}), bias = random.normal({8});
      const Array d_weights = random.normal({8, 3}), scalars = random.normal({kStepScalarCount});
      const Array experts = reference(kRoute, {logits, bias}, attrs)[1];
      expect_gradient(kRoute, {logits, bias}, attrs, d_weights, 0,
                      reference(kRouteBwd, {logits, experts, d_weights}, attrs)[0]);
      Array one({1});
      one.values = {1};
      const Arrays in = {logits, experts, scalars};
      expect_gradient(kRouterLoss, in, attrs, one, 0, reference(kRouterLossBwd, in, attrs)[0]);
    }
  }
}

// Drops a part of the choices.
TEST(MoeGradient, Experts) {
  Random random(4);
  const Routing routing = {9, 2, 3, 3, 1};
  const Plan plan(routing, random);
  const Array x = random.normal({9, 4}), rows = random.normal({18, 4});
  const Array weights = random.normal({9, 2}), matrices = random.normal({3, 5, 4});
  const Array d_rows = random.normal({18, 4}), d_out = random.normal({18, 5});
  const Array dy = random.normal({9, 4});
  expect_gradient(kDispatch, {x, plan.order, plan.offsets, plan.place}, {}, d_rows, 0,
                  reference(kDispatchBwd, {d_rows, plan.place}, {{Attr::kEnd, 9}})[0]);
  const Arrays grouped = {rows, matrices, plan.offsets};
  expect_gradient(kGroupedLinear, grouped, {}, d_out, 0,
                  reference(kGroupedLinearDgrad, {d_out, matrices, plan.offsets}, {})[0]);
  expect_gradient(kGroupedLinear, grouped, {}, d_out, 1,
                  reference(kGroupedLinearWgrad, {d_out, rows, plan.offsets}, {})[0]);
  const Arrays combined = {rows, weights, plan.place};
  const Arrays d = reference(kCombineBwd, {rows, weights, plan.place, dy}, {});
  expect_gradient(kCombine, combined, {}, dy, 0, d[0]);
  expect_gradient(kCombine, combined, {}, dy, 1, d[1]);
}

}  // namespace
}  // namespace spillway
