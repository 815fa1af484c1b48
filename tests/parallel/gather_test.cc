#include "parallel/gather.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/parallel/divided_chain.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Mode = Gathering::Mode;

TEST(Gather, PartsPersistAndWholeParametersLiveInASlot) {
  Schedule schedule = gathered(mesh(1, 4), Mode::kFull);
  const std::string text = to_text(schedule);
  EXPECT_THAT(text, HasSubstr("  buffer 0.up.weight f32[6] hbm parameters persistent\n"));
  EXPECT_THAT(text, HasSubstr("  buffer 0.up.weight.m f32[6] hbm optimizer persistent\n"));
  EXPECT_THAT(text, HasSubstr("  buffer 0.up.weight.grad f32[6] hbm gradients\n"));
  EXPECT_THAT(text, HasSubstr("  buffer L0.fwd.m0.0.up.weight@full f32[6,4] hbm gathered\n"));
  EXPECT_THAT(text, HasSubstr(
      "  L0.fwd.m0    compute  L0.fwd.m0.0.up.weight@full = all_gather(0.up.weight) "
      "{axes=2, parts=4}\n"
      "  L0.fwd.m0    compute  L0.m0.up = linear(L0.m0.normed, L0.fwd.m0.0.up.weight@full)\n"
      "  L0.fwd.m0    compute  free(L0.fwd.m0.0.up.weight@full)\n"));
  // Each of four in forward and backward, three layers, two micro-batches.
  EXPECT_EQ(lines_with(schedule, "all_gather(0.up.weight)").size(), 4U);
  EXPECT_THAT(lines_with(schedule, "adamw(1.up.weight.grad"),
              ElementsAre(HasSubstr("1.up.weight+, 1.up.weight.m+, 1.up.weight.v+ = adamw")));
  expect_runs(schedule);
}

TEST(Gather, LastPartsMayBeShort) {
  const Schedule schedule = gathered(mesh(1, 3), Mode::kFull);
  auto shape = [&](const char* name) { return schedule.buffers[schedule.find(name)].shape; };
  EXPECT_THAT(shape("embed.weight"), ElementsAre(7));   // of 20: 7, 7, 6
  EXPECT_THAT(shape("0.norm.weight"), ElementsAre(2));  // of 4: 2, 2, 0
  EXPECT_THAT(shape("L0.bwd.m1.0.norm.weight.grad@full"), ElementsAre(4));
}

TEST(Gather, GradientsAreReducedInTheirSlot) {
  Schedule schedule = gathered(mesh(2, 4), Mode::kFull);
  EXPECT_THAT(lines_with(schedule, "1.up.weight.grad"),
              ElementsAre(
      HasSubstr("L1.bwd.m0 L1.bwd.m0.1.up.weight.grad@full = linear_wgrad("),
      "L1.bwd.m0 1.up.weight.grad = reduce_scatter(L1.bwd.m0.1.up.weight.grad@full) "
      "{axes=2, parts=4}",
      "L1.bwd.m0 free(L1.bwd.m0.1.up.weight.grad@full)",
      HasSubstr("L1.bwd.m1 L1.bwd.m1.1.up.weight.grad@full = linear_wgrad("),
      "L1.bwd.m1 1.up.weight.grad+ = reduce_scatter(L1.bwd.m1.1.up.weight.grad@full) "
      "{axes=2, parts=4}",
      "L1.bwd.m1 free(L1.bwd.m1.1.up.weight.grad@full)",
      "L1.bwd.m1 1.up.weight.grad = all_reduce(1.up.weight.grad) {axes=1, parts=2}",
      HasSubstr("L1.norm.m0 grad_norm_sq+ = sum_squares(1.up.weight.grad)"),
      HasSubstr("L1.update.m0 1.up.weight+"),
      "L1.update.m0 free(1.up.weight.grad)"));
  expect_runs(schedule);
}

TEST(Gather, ASharedParameterIsReducedWhereverItIsUsed) {
  Schedule schedule = gathered(mesh(2, 4), Mode::kFull, true);
  auto slots = [&](const std::string& part) {
    std::vector<std::string> result;
    for (const std::string& line : lines_with(schedule, part)) {
      result.push_back(line.substr(0, line.find(' ')));
    }
    return result;
  };
  EXPECT_THAT(slots("all_gather(embed.weight)"),
              ElementsAre("embed.fwd.m0", "head.bwd.m0", "embed.fwd.m1", "head.bwd.m1"));
  EXPECT_THAT(slots("embed.weight.grad = reduce_scatter"), ElementsAre("head.bwd.m0"));
  EXPECT_THAT(slots("embed.weight.grad+ = reduce_scatter"),
              ElementsAre("embed.bwd.m0", "head.bwd.m1", "embed.bwd.m1"));
  EXPECT_THAT(slots("embed.weight.grad = all_reduce"), ElementsAre("embed.bwd.m1"));
  // In each slot a temporary of its own begins with a plain write.
  EXPECT_THAT(lines_with(schedule, "embed.weight.grad@full+"), IsEmpty());
  expect_runs(schedule);
}

TEST(Gather, OptimizerModeGathersAndReducesOnceAStep) {
  for (bool tied : {false, true}) {
    Schedule schedule = gathered(mesh(2, 4), Mode::kOptimizer, tied);
    EXPECT_THAT(lines_with(schedule, "all_gather(2.up.weight)"),
                ElementsAre("L2.fwd.m0 2.up.weight@full = all_gather(2.up.weight) "
                            "{axes=2, parts=4}"));
    EXPECT_THAT(lines_with(schedule, "free(2.up.weight@full)"),
                ElementsAre("L2.bwd.m1 free(2.up.weight@full)"));
    EXPECT_THAT(lines_with(schedule, "2.up.weight.grad@full"),
                ElementsAre(
        HasSubstr("L2.bwd.m0 2.up.weight.grad@full = linear_wgrad"),
        HasSubstr("L2.bwd.m1 2.up.weight.grad@full+ = linear_wgrad"),
        "L2.bwd.m1 2.up.weight.grad = reduce_scatter(2.up.weight.grad@full) {axes=2, parts=4}",
        "L2.bwd.m1 free(2.up.weight.grad@full)"));
    EXPECT_EQ(lines_with(schedule, "= reduce_scatter").size(), tied ? 13U : 14U);
    EXPECT_EQ(lines_with(schedule, "= all_reduce").size(), tied ? 15U : 16U);  // loss and norm too
    EXPECT_THAT(to_text(schedule), HasSubstr("  buffer 2.up.weight@full f32[6,4] hbm gathered\n"));
    expect_runs(schedule);
  }
}

TEST(Gather, SumsOfTheStepAreSummedOverTheirRanks) {
  const Schedule schedule = gathered(mesh(2, 4), Mode::kFull);
  const std::vector<std::string> norm = lines_with(schedule, ".norm.m0 ");
  EXPECT_EQ(norm.front(), "embed.norm.m0 loss = all_reduce(loss) {axes=7, parts=8}");
  EXPECT_EQ(norm.back(), "head.norm.m0 grad_norm_sq = all_reduce(grad_norm_sq) {axes=30, parts=4}");
  EXPECT_THAT(norm[1], HasSubstr("grad_norm_sq = sum_squares"));
  EXPECT_EQ(lines_with(schedule, "all_reduce(loss)").size(), 1U);
  EXPECT_EQ(lines_with(schedule, "all_reduce(grad_norm_sq)").size(), 1U);
}

TEST(Gather, ReplicasAloneSumWholeGradientsAndGatherNothing) {
  for (Mode mode : {Mode::kFull, Mode::kOptimizer}) {
    Schedule schedule = gathered(mesh(2, 1), mode);
    EXPECT_THAT(lines_with(schedule, "all_reduce(0.up.weight.grad)"),
                ElementsAre("L0.bwd.m1 0.up.weight.grad = all_reduce(0.up.weight.grad) "
                            "{axes=1, parts=2}"));
    EXPECT_THAT(to_text(schedule), Not(HasSubstr("@full")));
    EXPECT_THAT(lines_with(schedule, "all_reduce(grad_norm_sq)"), IsEmpty());
    expect_runs(schedule);
  }
}

TEST(Gather, OneRankIsLeftAlone) {
  Schedule before = lowered(chain_model());
  for (Buffer& buffer : before.buffers) buffer.shard_axes = 0;
  EXPECT_EQ(to_text(gathered(Mesh(), Mode::kFull)), to_text(before));
}

TEST(Gather, EvaluationGathersToo) {
  const Model model = chain_model(true);
  for (Mode mode : {Mode::kFull, Mode::kOptimizer}) {
    const Schedule train = gathered(lowered(model), mesh(2, 4), mode);
    Schedule evaluate = gathered(
        lower(model.programs, model.blocks, evaluation_order(model.blocks)), mesh(2, 4), mode);
    const std::vector<std::string> gathers = lines_with(evaluate, "all_gather(embed.weight)");
    EXPECT_EQ(gathers.size(), mode == Mode::kFull ? 2U : 1U);
    EXPECT_THAT(lines_with(evaluate, "all_reduce"),
                ElementsAre("head.eval.m0 loss = all_reduce(loss) {axes=7, parts=8}"));
    // Offsets of what persists are shared.
    const MemoryPlan a = plan_memory(train), b = plan_memory(evaluate);
    for (size_t i = 0; i < train.buffers.size(); ++i) {
      const TensorId other = evaluate.find(train.buffers[i].name);
      if (!train.buffers[i].persistent || other == kNoTensor) continue;
      EXPECT_EQ(train.buffers[i].shape, evaluate.buffers[other].shape);
      EXPECT_EQ(a.offset[i], b.offset[other]) << train.buffers[i].name;
    }
    expect_runs(evaluate);
  }
}

TEST(Gather, AnUpdateNeedsOperandsDividedAlike) {
  Schedule schedule = lowered(chain_model());
  schedule.buffers[schedule.find("1.up.weight.v")].shard_axes = 0;
  EXPECT_THROW(gather(schedule, mesh(1, 4), {}), VerifyError);
}

TEST(Gather, SurvivesTheTextForm) {
  const std::string text = to_text(lowered(chain_model()));
  EXPECT_THAT(text, HasSubstr("  buffer 0.up.weight f32[6,4] hbm parameters persistent shard=2\n"));
  Schedule parsed = parse_schedule(text);
  EXPECT_EQ(to_text(parsed), text);
  EXPECT_EQ(to_text(gathered(parsed, mesh(2, 4), Mode::kFull)),
            to_text(gathered(mesh(2, 4), Mode::kFull)));
}

}  // namespace
}  // namespace spillway
