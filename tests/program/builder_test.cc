#include "program/builder.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/program/mlp_block.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const Program& program, const std::vector<TensorId>& ids) {
  std::vector<std::string> result;
  for (TensorId id : ids) result.push_back(program.tensors[id].name);
  return result;
}

TEST(Builder, DerivesTheBackwardOfAnMlpBlock) {
  const std::string text = to_text(mlp_block());
  EXPECT_THAT(text, HasSubstr(R"(backward
  down.weight.grad+ = linear_wgrad(d.block_output, act)
  d.act = linear_dgrad(d.block_output, down.weight)
  d.gate, d.up = swiglu_bwd(gate, up, d.act)
  up.weight.grad+ = linear_wgrad(d.up, normed)
  d.normed = linear_dgrad(d.up, up.weight)
  gate.weight.grad+ = linear_wgrad(d.gate, normed)
  d.normed+ = linear_dgrad(d.gate, gate.weight)
  d.block_output+, norm.weight.grad+ = rmsnorm_bwd(block_input, norm.weight, normed.rstd, d.normed)
)"));
  // The residual stream's gradient passes through in place.
  EXPECT_THAT(text, HasSubstr("d_input d.block_output"));
}

TEST(Builder, ActivationsAreDerived) {
  const Program program = mlp_block();
  EXPECT_THAT(names(program, activations(program)),
              ElementsAre("block_input", "normed", "normed.rstd", "gate", "up", "act"));
  EXPECT_THAT(names(program, nameable_values(program)),
              ElementsAre("block_input", "normed", "gate", "up", "act", "down"));
}

// y = a + b where b = f(a): a's gradient must not be changed while it still stands for b's.
TEST(Builder, SharedGradientIsNotChangedInPlace) {
  ProgramBuilder b("shared");
  const TensorId x = b.block_input("x", DType::kF32, {2, 4});
  const TensorId w = b.param("w", DType::kF32, {4, 4}, {});
  const TensorId u = b.op(OpKind::kLinear, "u", {x, w});
  const TensorId y = b.op(OpKind::kAdd, "y", {x, u});
  const TensorId s = b.op(OpKind::kSwiglu, "s", {x, u});  // a later reader of both
  const Program program = b.finish(b.op(OpKind::kAdd, "z", {y, s}));
  // d.z stands for y and s (both processed), then for x and u; u's product reads it before x adds.
  const std::string text = to_text(program);
  EXPECT_THAT(text, HasSubstr("d.x, d.u = swiglu_bwd(x, u, d.z)"));
  EXPECT_THAT(text, HasSubstr("add(d.x, d.z)"));
  EXPECT_THAT(text, HasSubstr("add(d.u, d.z)"));
}

TEST(Builder, HeadComputesLogitsNextToTheirGradient) {
  const Program tail = tail_block();
  EXPECT_TRUE(tail.forward.empty());
  EXPECT_THAT(to_text(tail), HasSubstr("loss+, loss.0.lse = cross_entropy(logits, targets, scalars)"));
  EXPECT_NE(tail.d_input, kNoTensor);
}

TEST(Verify, RefusesWhatDoesNotFit) {
  Program program = mlp_block();
  std::swap(program.forward[0], program.forward[1]);
  EXPECT_THROW(verify(program), VerifyError);  // read before defined
  program = mlp_block();
  program.tensors[program.find("gate")].shape = {8, 7};
  EXPECT_THROW(verify(program), VerifyError);  // not what linear gives
  program = mlp_block();
  program.forward.push_back(program.forward.back());
  EXPECT_THROW(verify(program), VerifyError);  // defined twice
  program = mlp_block();
  program.tensors[program.find("act")].name = "gate";
  EXPECT_THROW(verify(program), VerifyError);  // two of one name
}

TEST(OpTable, RowsAreInOrderAndExplainTheirTolerance) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const OpInfo& info = op_info(static_cast<OpKind>(i));
    EXPECT_EQ(static_cast<int>(info.kind), i) << info.name;
    EXPECT_EQ(op_named(info.name), info.kind);
    EXPECT_FALSE(info.tolerance.why.empty()) << info.name;
  }
}

}  // namespace
}  // namespace spillway
