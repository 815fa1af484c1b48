// What calibration adds to a hardware file, in the costs of instructions.
#include <gmock/gmock.h>

#include "device/sim/simulate.h"
#include "program/sync.h"
#include "tests/sim/toy_hardware.h"
#include "trainer/component.h"

namespace spillway {
namespace {

double seconds_of(const Component& component, const Hardware& hardware) {
  return sim::SimCostModel(hardware, {}).seconds(component.schedule, component.instr());
}

// y = a + b, as many f32 elements each; launches cost nothing.
Component add(int64_t elements) {
  Component result = product(OpKind::kLinear, DType::kF32, 1, 1, elements);
  result.schedule.instrs[0].op.kind = OpKind::kAdd;
  for (Buffer& buffer : result.schedule.buffers) buffer.shape = {1, elements};
  return result;
}

Hardware prompt_toy() {
  Hardware h = toy_hardware();
  h.launch_us.value = 0;
  return h;
}

TEST(ComponentCost, AMemoryOpTakesItsRowsRateAndOthersTheFraction) {
  Hardware h = prompt_toy();
  const Component component = add(1'000'000);  // 12 MB
  EXPECT_NEAR(seconds_of(component, h), 12e6 / (0.8 * 1000e9), 1e-12);
  h.memory_ops = {{{OpKind::kSwiglu, 12e6, 1}}, Mark::kMeasured, "another op's"};
  EXPECT_NEAR(seconds_of(component, h), 12e6 / (0.8 * 1000e9), 1e-12);
  h.memory_ops.rows.push_back({OpKind::kAdd, 12e6, 100});
  EXPECT_NEAR(seconds_of(component, h), 12e6 / 100e9, 1e-12);
}

TEST(ComponentCost, ProductsOfF32HaveATableOfTheirOwnOrThePeak) {
  Hardware h = prompt_toy();
  const double flops = 2.0 * 256 * 256 * 256;
  const Component f32 = product(OpKind::kLinear, DType::kF32, 256, 256, 256);
  h.f32_tflops.value = 10;
  EXPECT_NEAR(seconds_of(f32, h), flops / 10e12 / 0.9, 1e-9);
  h.f32_matmul = {{{256, 256, 256, 2}}, Mark::kMeasured, "a toy"};
  EXPECT_NEAR(seconds_of(f32, h), flops / 2e12 / 0.9, 1e-9);
  Component mixed = f32;  // an f32 gradient times a bf16 weight
  mixed.schedule.buffers[1].dtype = DType::kBF16;
  EXPECT_NEAR(seconds_of(mixed, h), flops / 20e12 / 0.9, 1e-9);
}

TEST(ComponentCost, WhoWaitsStartsLater) {
  Hardware h = prompt_toy();
  Component component = add(1000);
  const double alone = seconds_of(component, h);
  h.wait_us = {5, Mark::kMeasured, "a toy"};
  EXPECT_DOUBLE_EQ(seconds_of(component, h), alone);
  component.schedule.instrs[0].waits = {0};
  EXPECT_NEAR(seconds_of(component, h), alone + 5e-6, 1e-15);
}

TEST(ComponentCost, ACopyTakesItsShareOfCompute) {
  Hardware h = prompt_toy();
  Schedule schedule = product(OpKind::kLinear, DType::kBF16, 4096, 4096, 4096).schedule;
  schedule.buffers.push_back(
      {.name = "from", .shape = {1 << 28}, .space = Space::kHbm, .persistent = true});
  schedule.buffers.push_back(
      {.name = "to", .shape = {1 << 28}, .space = Space::kHost, .persistent = true});
  schedule.instrs.push_back({.slot = 0, .stream = Stream::kD2h,
                             .op = {.kind = OpKind::kCopy, .in = {3}, .out = {4}, .accumulate = {false}}});
  const MemoryPlan plan = plan_memory(schedule);
  insert_sync(schedule, plan);
  const auto product_ns = [&] {
    return static_cast<double>(sim::simulate(schedule, plan, h, {}).timings[0].end_ns);
  };
  const double alone = product_ns();  // the copy lasts longer
  h.copy_sm_share = {0.5, Mark::kMeasured, "a toy"};
  EXPECT_NEAR(product_ns(), 2 * alone, 0.01 * alone);
}

}  // namespace
}  // namespace spillway
