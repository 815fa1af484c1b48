// The cpu kernels of the router against the f64 reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "program/op_table.h"
#include "tests/device/op_case.h"

namespace spillway {
namespace {

using enum OpKind;
constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32;

struct Router {
  int64_t tokens, experts, top_k, groups = 1, topk_groups = 1, group_top = 1;
  double bias = 0;  // mean
  bool balanced = false;

  [[nodiscard]] Attrs attrs(bool sigmoid, bool normalize) const {
    return {{Attr::kTopK, top_k},
            {Attr::kGroups, groups},
            {Attr::kTopkGroups, topk_groups},
            {Attr::kGroupTop, group_top},
            {Attr::kSigmoid, sigmoid},
            {Attr::kNormalize, normalize},
            {Attr::kScale, 2.5},
            {Attr::kBalanced, balanced}};
  }
  [[nodiscard]] OpCase route(bool sigmoid, bool normalize, Random& random) const {
    OpCase test{.kind = kRoute, .attrs = attrs(sigmoid, normalize), .out_types = {kF32, kI32}};
    test.add_input(random.normal({tokens, experts}), kF32);
    if (bias == 0) return test;
    Array biases = random.normal({experts});
    for (double& value : biases.values) value = bias + 0.2 * value;
    test.add_input(biases, kF32);
    return test;
  }
};

// One expert, all experts, no groups, groups, DeepSeek-V3's own, and biases that give masked groups
// a chance only if they count as 0.
constexpr Router kRouters[] = {
    {1, 1, 1},
    {3, 5, 5},
    {50, 64, 6},
    {70, 8, 3, 4, 2, 2, 0.1},
    {70, 12, 3, 4, 3, 1},
    {33, 256, 8, 8, 4, 2, -0.1},
    {60, 12, 3, 4, 2, 2, -3},
    {60, 12, 2, 3, 3, 4, -3},
    {31, 7, 2, 1, 1, 1, 0, true},
};

template <class F>
void for_each_router(const F& f) {
  uint32_t seed = 1;
  for (const Router& router : kRouters) {
    for (bool sigmoid : {false, true}) {
      for (bool normalize : {false, true}) {
        Random random(seed++);
        f(router, router.route(sigmoid, normalize, random), random);
      }
    }
  }
}

// Experts equal, weights within the tolerance, bits the same for any number of threads.
void check_route(const OpCase& test) {
  SCOPED_TRACE(test.text());
  const Arrays expected = reference(kRoute, test.in, test.attrs);
  const OpRun run = run_on_cpu(test, expected, false, 1);
  ASSERT_EQ(run.out[1].values, expected[1].values);
  double largest = 0;
  for (double weight : expected[0].values) largest = std::max(largest, std::abs(weight));
  for (size_t i = 0; i < run.out[0].values.size(); ++i) {
    ASSERT_NEAR(run.out[0].values[i], expected[0].values[i],
                op_info(kRoute).tolerance.f32 * largest);
  }
  for (int threads : {2, 3}) EXPECT_EQ(run_on_cpu(test, expected, false, threads).bytes, run.bytes);
}

TEST(CpuRouter, Route) {
  for_each_router([](const Router&, const OpCase& test, Random&) { check_route(test); });
}

// Few different logits: most comparisons, of experts and of groups, are ties.
TEST(CpuRouter, TiesGoToTheLowerIndex) {
  for (bool sigmoid : {false, true}) {
    Random random(1);
    OpCase test = Router{200, 16, 4, 4, 2, 2}.route(sigmoid, true, random);
    test.in[0] = random.integers({200, 16}, 0, 4);
    for (double& logit : test.in[0].values) logit /= 2;
    check_route(test);
    std::ranges::fill(test.in[0].values, 0.25);
    check_route(test);
    EXPECT_EQ(reference(kRoute, test.in, test.attrs)[1].at(199, 3), 3);
  }
}

TEST(CpuRouter, RouteBwd) {
  for_each_router([](const Router& router, OpCase test, Random& random) {
    if (router.top_k == 1 && test.attrs.integer(Attr::kNormalize) != 0) return;  // it is 0
    const Array experts = reference(kRoute, test.in, test.attrs)[1];
    test.kind = kRouteBwd;
    test.in.resize(1);
    test.in_types.resize(1);
    test.add_input(experts, kI32);
    test.add_input(random.normal({router.tokens, router.top_k}), kF32);
    for (DType dtype : {kF32, kBF16}) {
      test.out_types = {dtype};
      check(test);
    }
  });
}

TEST(CpuRouter, Loss) {
  for_each_router([](const Router& router, OpCase test, Random& random) {
    if (test.attrs.integer(Attr::kNormalize) != 0) return;  // means nothing here
    const Array experts = reference(kRoute, test.in, test.attrs)[1];
    const bool two = router.tokens % 2 == 0;
    test.attrs.set(Attr::kSeq, static_cast<double>(two ? router.tokens / 2 : router.tokens));
    test.in.resize(1);
    test.in_types.resize(1);
    test.add_input(experts, kI32);
    test.add_input(random.normal({kStepScalarCount}), kF32);
    test.in[2].values[kInverseValidTokens] = 1.0 / 64;
    for (const auto& [balance, z] : {std::pair{0.01, 0.0}, {0.0, 0.001}, {0.01, 0.001}}) {
      test.attrs.set(Attr::kBalanceLoss, balance);
      test.attrs.set(Attr::kZLoss, z);
      test.kind = kRouterLoss;
      test.out_types = {kF32};
      check(test);
      test.kind = kRouterLossBwd;
      check(test);
      test.out_types = {kBF16};
      check(test);
    }
  });
}

// A token with a NaN logit has NaN weights, valid experts, and no effect on other tokens.
TEST(CpuRouter, NanLogits) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr int64_t kBroken = 5, kAllBroken = 9, kInfinite = 12, kTokens = 20, kExperts = 12;
  for (bool sigmoid : {false, true}) {
    Random random(1);
    OpCase test = Router{kTokens, kExperts, 3, 4, 2, 2, 0.1}.route(sigmoid, true, random);
    const Arrays whole = run_on_cpu(test, reference(kRoute, test.in, test.attrs), false, 2).out;
    test.in[0].at(kBroken, 7) = kNan;
    for (int64_t e = 0; e < kExperts; ++e) test.in[0].at(kAllBroken, e) = kNan;
    test.in[0].at(kInfinite, 3) = -INFINITY;
    const Arrays expected = reference(kRoute, test.in, test.attrs);
    const Arrays out = run_on_cpu(test, expected, false, 2).out;
    EXPECT_EQ(out[1].values, expected[1].values);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t j = 0; j < 3; ++j) {
        const bool broken = t == kBroken || t == kAllBroken;
        EXPECT_EQ(std::isnan(out[0].at(t, j)), broken);
        if (broken || t == kInfinite) continue;
        EXPECT_EQ(out[0].at(t, j), whole[0].at(t, j));
      }
    }
  }
}

// Scores that underflow to 0 give weights and gradients of 0, not of 0 / 0.
TEST(CpuRouter, VanishingScores) {
  Random random(1);
  OpCase test = Router{6, 8, 2}.route(true, true, random);
  for (double& logit : test.in[0].values) logit -= 300;
  const Arrays out = run_on_cpu(test, reference(kRoute, test.in, test.attrs), false, 1).out;
  for (double weight : out[0].values) EXPECT_EQ(weight, 0);
  OpCase loss{.kind = kRouterLossBwd, .attrs = test.attrs, .out_types = {kF32}};
  loss.attrs.set(Attr::kSeq, 6);
  loss.attrs.set(Attr::kBalanceLoss, 1);
  loss.attrs.set(Attr::kZLoss, 0);
  loss.add_input(test.in[0], kF32);
  loss.add_input(out[1], kI32);
  loss.add_input(random.normal({kStepScalarCount}), kF32);
  const Array d_logits = run_on_cpu(loss, {test.in[0]}, false, 1).out[0];
  for (double d : d_logits.values) EXPECT_EQ(d, 0);
}

}  // namespace
}  // namespace spillway
