#include "offload/remat.h"

#include <gmock/gmock.h>

#include "offload/policy.h"
#include "program/error.h"
#include "program/text.h"
#include "tests/program/mlp_block.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Program with_policy(const ActivationPolicy& policy) {
  Program program = mlp_block();
  resolve(policy, {&program});
  return remat(std::move(program));
}

std::string backward_text(const Program& program) {
  const std::string text = to_text(program);
  return text.substr(text.find("backward"));
}

TEST(Remat, FullRecomputesEachValueOnceJustBeforeItsFirstUse) {
  EXPECT_EQ(backward_text(with_policy({"full", {}})), R"(backward
  normed@remat, normed.rstd@remat = rmsnorm(block_input, norm.weight) {eps=1e-05} !recompute
  gate@remat = linear(normed@remat, gate.weight) !recompute
  up@remat = linear(normed@remat, up.weight) !recompute
  act@remat = swiglu(gate@remat, up@remat) !recompute
  down.weight.grad+ = linear_wgrad(d.block_output, act@remat)
  d.act = linear_dgrad(d.block_output, down.weight)
  d.gate, d.up = swiglu_bwd(gate@remat, up@remat, d.act)
  up.weight.grad+ = linear_wgrad(d.up, normed@remat)
  d.normed = linear_dgrad(d.up, up.weight)
  gate.weight.grad+ = linear_wgrad(d.gate, normed@remat)
  d.normed+ = linear_dgrad(d.gate, gate.weight)
  d.block_output+, norm.weight.grad+ = rmsnorm_bwd(block_input, norm.weight, normed.rstd@remat, d.normed)
)");
}

TEST(Remat, NothingMarkedRematCrosses) {
  for (const char* kept : {"normed", "gate", "up", "act", "down"}) {
    const Program program = with_policy({"custom", {{kept, Strategy::kDevice}}});
    for (TensorId id : activations(program)) {
      EXPECT_NE(program.tensors[id].strategy, Strategy::kRemat) << program.tensors[id].name;
    }
  }
}

TEST(Remat, NoneChangesNothing) {
  EXPECT_EQ(backward_text(with_policy({"none", {}})), backward_text(mlp_block()));
  EXPECT_THAT(to_text(with_policy({"none", {}})), Not(HasSubstr("!recompute")));
}

TEST(Policy, ANameThatMatchesNothingIsAnError) {
  auto message = [](const ActivationPolicy& policy) -> std::string {
    try {
      (void)with_policy(policy);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message({"custom", {{"gat", Strategy::kOffload}}}),
            "config error: activation.custom.gat is not an activation of mlp_block, did you mean "
            "gate?; activations: block_input, normed, gate, up, act, down");
  EXPECT_EQ(message({"custom", {{"block_input", Strategy::kRemat}}}),
            "config error: block_input cannot be remat: it is a block input; choose device or "
            "offload");
  EXPECT_THAT(message({"minimul", {}}), HasSubstr("did you mean minimal?; policies: none, full"));
  EXPECT_THAT(message({"minimal", {}}), HasSubstr("none of which this model has"));
  EXPECT_THAT(message({"full", {{"gate", Strategy::kDevice}}}),
              HasSubstr("set activation.policy: custom"));
}

TEST(Policy, AuxiliaryOutputsFollowTheFirst) {
  Program program = mlp_block();
  resolve({"custom", {{"normed", Strategy::kOffload}}}, {&program});
  EXPECT_EQ(program.tensors[program.find("normed.rstd")].strategy, Strategy::kOffload);
  EXPECT_EQ(program.tensors[program.find("gate")].strategy, Strategy::kRemat);
  EXPECT_EQ(program.tensors[program.find("block_input")].strategy, Strategy::kDevice);
}

}  // namespace
}  // namespace spillway
