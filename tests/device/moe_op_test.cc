// The cpu kernels of latent attention and mixture of experts against the f64 reference; the router
// has router_op_test.cc.
#include <gmock/gmock.h>

#include "program/op_table.h"
#include "tests/device/moe_case.h"

namespace spillway {
namespace {

using enum OpKind;
constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32;
constexpr DType kFloats[] = {kF32, kBF16};

template <class F>
void for_each_routing(const F& f) {
  uint32_t seed = 1;
  for (const Routing& routing : kRoutings) {
    for (DType dtype : kFloats) {
      Random random(seed++);
      const Plan plan(routing, random);
      f(routing, plan, dtype, random);
    }
  }
}

OpCase case_of(OpKind kind, const Attrs& attrs, std::vector<DType> out_types) {
  return {.kind = kind, .attrs = attrs, .out_types = std::move(out_types)};
}

TEST(CpuMla, Columns) {
  for (DType dtype : kFloats) {
    Random random(1);
    OpCase test = case_of(kColumns, {{Attr::kBegin, 5}, {Attr::kEnd, 70}}, {dtype});
    test.add_input(random.normal({257, 96}), dtype);
    check(test);
    test = case_of(kPutColumns, {{Attr::kBegin, 5}, {Attr::kEnd, 70}}, {dtype});
    test.add_input(random.normal({257, 65}), dtype);
    test.before = {random.normal({257, 96}, dtype)};
    check(test);
  }
}

TEST(CpuMla, Concat) {
  for (DType dtype : kFloats) {
    Random random(1);
    OpCase test = case_of(kConcat, {{Attr::kBegin, 33}, {Attr::kEnd, 129}}, {dtype});
    test.add_input(random.normal({257, 33}), dtype);
    test.add_input(random.normal({257, 96}), dtype);
    check(test);
  }
}

TEST(CpuMoe, NextTokens) {
  OpCase test = case_of(kNextTokens, {{Attr::kSeq, 5}}, {kI32, kI32});
  Array targets({10});
  targets.values = {7, 3, -100, 4, 9, 1, 2, -1, -1, 6};
  test.add_input(targets, kI32);
  const Arrays out = run_on_cpu(test, {targets, targets}, false, 2).out;
  EXPECT_THAT(out[0].values, testing::ElementsAre(7, 3, 0, 4, 9, 1, 2, 0, 0, 6));
  EXPECT_THAT(out[1].values,
              testing::ElementsAre(3, -100, -100, 9, -100, 2, -100, -100, -100, -100));
  EXPECT_EQ(out[0].values, reference(kNextTokens, test.in, test.attrs)[0].values);
  EXPECT_EQ(out[1].values, reference(kNextTokens, test.in, test.attrs)[1].values);
}

Attrs head_attrs(int64_t heads, int64_t n, int64_t r, int64_t v) {
  return {
      {Attr::kHeads, heads}, {Attr::kHeadDim, n + r}, {Attr::kRopeDim, r}, {Attr::kVHeadDim, v}};
}

TEST(CpuMla, KeyAndValue) {
  struct Widths {
    int64_t rows, heads, n, r, v;
  };
  constexpr Widths kWidths[] = {{1, 1, 1, 2, 1}, {33, 3, 16, 8, 12}, {130, 2, 7, 40, 33}};
  for (const Widths& w : kWidths) {
    for (DType dtype : kFloats) {
      Random random(2);
      OpCase test = case_of(kMlaKey, head_attrs(w.heads, w.n, w.r, w.v), {dtype});
      test.add_input(random.normal({w.rows, w.heads * (w.n + w.v)}), dtype);
      test.add_input(random.normal({w.rows, w.r}), dtype);
      check(test);
      test.kind = kMlaValue;
      test.in.pop_back();
      test.in_types.pop_back();
      check(test);
    }
  }
}

// Each writes its own columns of d.kv_up only; d.k_rot is added to where the op says so.
TEST(CpuMla, KeyAndValueBwd) {
  for (DType dtype : kFloats) {
    Random random(3);
    OpCase test = case_of(kMlaKeyBwd, head_attrs(3, 16, 8, 12), {dtype, dtype});
    test.add_input(random.normal({33, 3 * 24}), dtype);
    test.before = {random.normal({33, 3 * 28}, dtype), random.normal({33, 8}, dtype)};
    check(test);
    const OpRun run = run_on_cpu(test, test.before, false, 2);
    test.before[1] = Array({33, 8});
    EXPECT_EQ(run.bytes, run_on_cpu(test, test.before, true, 1).bytes);
    test = case_of(kMlaValueBwd, head_attrs(3, 16, 8, 12), {dtype});
    test.add_input(random.normal({33, 3 * 12}), dtype);
    test.before = {random.normal({33, 3 * 28}, dtype)};
    check(test);
    EXPECT_EQ(run_on_cpu(test, test.before, false, 1).bytes,
              run_on_cpu(test, test.before, true, 1).bytes);
  }
}

TEST(CpuMoe, DispatchPlan) {
  for_each_routing([](const Routing& routing, const Plan& plan, DType, Random&) {
    OpCase test = case_of(kDispatchPlan, routing.attrs(), {kI32, kI32, kI32});
    test.add_input(plan.experts, kI32);
    test.before = {plan.order, plan.offsets, plan.place};
    for (Array& array : test.before) std::ranges::fill(array.values, 7777);
    for (int threads : {1, 2, 3}) {
      const Arrays out = run_on_cpu(test, test.before, false, threads).out;
      EXPECT_EQ(out[0].values, plan.order.values);
      EXPECT_EQ(out[1].values, plan.offsets.values);
      EXPECT_EQ(out[2].values, plan.place.values);
    }
  });
}

TEST(CpuMoe, CountExperts) {
  for_each_routing([](const Routing& routing, const Plan& plan, DType, Random& random) {
    OpCase test = case_of(kCountExperts, {}, {kI32});
    test.add_input(plan.experts, kI32);
    test.add_input(plan.offsets, kI32);
    Array expected = reference(kCountExperts, test.in, {})[0];
    EXPECT_EQ(run_on_cpu(test, {expected}, false, 2).out[0].values, expected.values);
    const Array before = random.integers({routing.experts + 1}, 0, 100);
    for (size_t i = 0; i < before.values.size(); ++i) expected.values[i] += before.values[i];
    EXPECT_EQ(run_on_cpu(test, {before}, true, 2).out[0].values, expected.values);
  });
}

TEST(CpuMoe, RouterBiasUpdate) {
  for (int64_t experts : {1, 5, 64}) {
    Random random(4);
    OpCase test = case_of(kRouterBiasUpdate, {{Attr::kRate, 1e-3}}, {kF32});
    test.add_input(random.integers({experts + 1}, 0, 7), kI32);
    test.in[0].values.back() = 1e6;  // dropped choices are no load
    test.before = {random.normal({experts})};
    check(test);
    std::fill_n(test.in[0].values.begin(), experts, 3);
    EXPECT_EQ(run_on_cpu(test, test.before, true, 1).out[0].values, test.before[0].values);
  }
}

TEST(CpuMoe, Dispatch) {
  for_each_routing([](const Routing& routing, const Plan& plan, DType dtype, Random& random) {
    OpCase test = case_of(kDispatch, {}, {dtype});
    test.add_input(random.normal({routing.tokens, 130}), dtype);
    test.add_input(plan.order, kI32);
    test.add_input(plan.offsets, kI32);
    test.add_input(plan.place, kI32);
    check(test);
    test = case_of(kDispatchBwd, {{Attr::kEnd, routing.tokens}}, {dtype});
    test.add_input(plan.values(130, random), dtype);
    test.add_input(plan.place, kI32);
    check(test);
  });
}

// More than one block of a row where there are few rows.
TEST(CpuMoe, Combine) {
  for_each_routing([](const Routing& routing, const Plan& plan, DType dtype, Random& random) {
    const int64_t width = routing.tokens < 50 ? 1500 : 33;
    OpCase test = case_of(kCombine, {}, {dtype});
    test.add_input(plan.values(width, random), dtype);
    test.add_input(random.normal({routing.tokens, routing.top_k}), kF32);
    test.add_input(plan.place, kI32);
    check(test);
    test.kind = kCombineBwd;
    test.add_input(random.normal({routing.tokens, width}), dtype);
    test.out_types = {dtype, kF32};
    check(test);
  });
}

// Pure f32, pure bf16 with either output, and mixtures that are converted first.
constexpr DType kProductTypes[][3] = {{kF32, kF32, kF32},   {kBF16, kBF16, kBF16},
                                      {kBF16, kBF16, kF32}, {kF32, kBF16, kBF16},
                                      {kBF16, kF32, kF32},  {kF32, kF32, kBF16}};

void check_products(const Routing& routing, int64_t N, int64_t K, Random& random) {
  const Plan plan(routing, random);
  const Array x = plan.values(K, random), dy = plan.values(N, random);
  const Array weight = random.normal({routing.experts, N, K});
  for (const auto& [a, b, y] : kProductTypes) {
    OpCase test = case_of(kGroupedLinear, {}, {y});
    test.add_input(x, a);
    test.add_input(weight, b);
    test.add_input(plan.offsets, kI32);
    check(test);
    test = case_of(kGroupedLinearDgrad, {}, {y});
    test.add_input(dy, a);
    test.add_input(weight, b);
    test.add_input(plan.offsets, kI32);
    check(test);
    test = case_of(kGroupedLinearWgrad, {}, {y});
    test.add_input(dy, a);
    test.add_input(x, b);
    test.add_input(plan.offsets, kI32);
    check(test);
  }
}

TEST(CpuMoe, GroupedLinear) {
  Random random(5);
  for (const Routing& routing : kRoutings) check_products(routing, 33, 40, random);
}

// More than one tile of rows, and of panels either way.
TEST(CpuMoe, GroupedLinearInTiles) {
  Random random(6);
  check_products({330, 2, 3, 330, 0}, 530, 97, random);
  check_products({301, 1, 2, 301, 0, true}, 70, 530, random);
}

TEST(CpuMoe, WgradOfNoRowsIsZero) {
  Random random(7);
  const Plan plan({40, 2, 5, 40, 0, true}, random);
  OpCase test = case_of(kGroupedLinearWgrad, {}, {kBF16});
  test.add_input(plan.values(24, random), kBF16);
  test.add_input(plan.values(16, random), kBF16);
  test.add_input(plan.offsets, kI32);
  const Array d_weight = run_on_cpu(test, {Array({5, 24, 16})}, false, 2).out[0];
  for (int64_t i = 0; i < d_weight.width(); ++i) {
    for (int64_t e = 2; e < 5; ++e) EXPECT_EQ(d_weight.at(e, i), 0);
  }
}

}  // namespace
}  // namespace spillway
