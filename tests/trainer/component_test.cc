#include "trainer/component.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/strategies/trajectory.h"
#include "trainer/component_bench.h"
#include "trainer/component_tables.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::Ge;

Schedule step_of(const Config& config) { return compile_config(config).train.schedule; }

Component first_of(const Schedule& schedule, OpKind kind) {
  for (Component& component : components_of(schedule)) {
    if (component.op().kind == kind) return component;
  }
  ADD_FAILURE() << "no such op";
  return {};
}

TEST(Component, EveryShapeIsThereOnceWithItsFlopsAndBytes) {
  const Schedule four = step_of(tiny_llama(4)), eight = step_of(tiny_llama(8));
  EXPECT_EQ(components_of(four).size(), components_of(eight).size());
  const Component grouped = first_of(step_of(tiny_deepseek()), OpKind::kGroupedLinear);
  EXPECT_EQ(grouped.flops(), 2 * 64 * 3 * 16 * 32);  // tokens x chosen x inner x hidden
  const Component add = first_of(four, OpKind::kAdd);
  EXPECT_EQ(add.bytes(), 3 * 64 * 32 * 4);
}

TEST(Component, RoutingIsAPermutationAndBalanced) {
  const Component dispatch = first_of(step_of(tiny_deepseek()), OpKind::kDispatch);
  const std::vector<int32_t> order = usual_integers(dispatch, 1), offsets = usual_integers(dispatch, 2),
                             place = usual_integers(dispatch, 3);
  for (size_t choice = 0; choice < place.size(); ++choice) {
    EXPECT_EQ(order.at(static_cast<size_t>(place[choice])), static_cast<int32_t>(choice));
  }
  EXPECT_EQ(offsets.back(), 64 * 3);
  for (size_t e = 1; e < offsets.size(); ++e) EXPECT_EQ(offsets[e] - offsets[e - 1], 64 * 3 / 8);
}

TEST(Component, RepetitionsTakeTurnsWithBuffers) {
  const Component component = product(OpKind::kLinear, DType::kF32, 16, 16, 16);  // 3 KiB
  const Schedule schedule = repeated(component, 5, 2 * 3072);
  EXPECT_EQ(schedule.buffers.size(), 6U);
  EXPECT_THAT(schedule.instrs[2].op.in, ElementsAre(0, 1));
  EXPECT_THAT(schedule.instrs[3].op.in, ElementsAre(3, 4));
  EXPECT_EQ(repeated(component, 5, 1).buffers.size(), 3U);
}

TEST(Component, ProductsAreWhatTheirShapesSay) {
  const Component wgrad = product(OpKind::kLinearWgrad, DType::kBF16, 4, 8, 16);
  EXPECT_EQ(wgrad.flops(), 2 * 4 * 8 * 16);
  EXPECT_THAT(wgrad.out(0).shape, ElementsAre(4, 8));
}

// None may stop at its inputs, and none may run on values that no step has.
TEST(SlowComponentBench, EveryOpOfAStepRunsByItself) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (Config config : {tiny_llama(1), tiny_deepseek()}) {
      config.precision.compute = compute;
      ComponentBench bench(config.device, int64_t{16} << 20);
      for (const Component& component : components_of(step_of(config))) {
        SCOPED_TRACE(component.key());
        ASSERT_TRUE(bench.fits(component));
        EXPECT_GT(bench.seconds(component, 1), 0);
      }
    }
  }
}

TEST(SlowComponentBench, APacedLinkIsMeasured) {
  Config config = tiny_llama(1);
  config.device.link_gb_per_s = 0.25;
  ComponentBench bench(config.device, int64_t{128} << 20);
  const StreamTimes times = stream_times(bench);
  EXPECT_LE(times.d2h_bytes_per_s, 0.25e9);
  EXPECT_GT(times.d2h_bytes_per_s, 0.15e9);
  EXPECT_GT(times.h2d_bytes_per_s, 0.15e9);
  EXPECT_LT(times.launch, 1e-3);
  EXPECT_THAT(times.copy_share, Ge(0));
}

TEST(ComponentTables, RowsHoldWorkOverTime) {
  ComponentTables tables;
  tables.add(product(OpKind::kLinear, DType::kF32, 8, 16, 32), 1e-6);
  tables.add(product(OpKind::kLinear, DType::kF32, 8, 16, 32), 3e-6);  // averaged: 2 us
  tables.add(product(OpKind::kLinearWgrad, DType::kBF16, 8, 16, 32), 1e-6);
  const Schedule step = step_of(tiny_deepseek());
  for (const Component& component : components_of(step)) {
    if (component.flops() > 0 && component.op().kind > OpKind::kLinearWgrad) tables.add(component, 1e-3);
  }
  const Component add = first_of(step, OpKind::kAdd);
  tables.add(add, 2e-6);
  Hardware h;
  tables.fill(h, "a test");
  ASSERT_EQ(h.f32_matmul.rows.size(), 1U);
  EXPECT_NEAR(h.f32_matmul.rows[0].tflops, 2 * 8 * 16 * 32 / 2e-6 * 1e-12, 1e-9);
  EXPECT_EQ(h.bf16_matmul.rows.at(0).m, 8);
  EXPECT_EQ(h.bf16_matmul.rows.at(0).k, 32);
  ASSERT_EQ(h.bf16_grouped.rows.size(), 2U);  // up and down: each has all three directions
  for (const GroupedRow& row : h.bf16_grouped.rows) {
    EXPECT_EQ(row.experts, 8);
    EXPECT_EQ(row.m, 64 * 3 / 8);
    const double tflops = 2.0 * 64 * 3 * 16 * 32 / 1e-3 * 1e-12;
    EXPECT_NEAR(row.tflops, tflops, 1e-12);
    EXPECT_NEAR(row.dgrad_tflops, tflops, 1e-12);
    EXPECT_NEAR(row.wgrad_tflops, tflops, 1e-12);
  }
  EXPECT_NEAR(h.bf16_attention.rows.at(0).bwd_tflops, 2 * h.bf16_attention.rows[0].tflops, 1e-9);
  ASSERT_EQ(h.memory_ops.rows.size(), 1U);
  EXPECT_EQ(h.memory_ops.rows[0].bytes, static_cast<double>(add.bytes()));
  EXPECT_DOUBLE_EQ(h.hbm_gb_per_s.value, h.memory_ops.rows[0].gb_per_s);
}

}  // namespace
}  // namespace spillway
