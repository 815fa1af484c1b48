#include "program/lower.h"

#include <gmock/gmock.h>

#include "parallel/order.h"
#include "program/error.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/program/mlp_block.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

Schedule chain_schedule(int layers, int micro_batches) {
  const Chain chain = mlp_chain(layers);
  return lower(chain.programs, chain.blocks, training_order(chain.blocks, micro_batches));
}

TEST(Lower, JoinsBlocksAndFreesAtLastUse) {
  const Schedule schedule = chain_schedule(2, 1);
  verify(schedule);
  const std::string text = to_text(schedule);
  EXPECT_THAT(text, HasSubstr("L1.m0.block_input = add(L0.m0.block_input, L0.m0.down)"));
  EXPECT_THAT(text, HasSubstr("buffer L0.m0.gate f32[8,6] hbm activations activation=gate"));
  EXPECT_THAT(text, HasSubstr("L0.fwd.m0    compute  free(L0.m0.down)"));
  EXPECT_THAT(text, HasSubstr("L0.bwd.m0    compute  free(L0.m0.gate)"));
  EXPECT_THAT(text, HasSubstr("embed.weight.grad = embedding_bwd(m0.tokens, head.m0.d.tail_input)"));
}

TEST(Lower, FirstMicroBatchWritesGradientsLaterOnesAdd) {
  const std::string text = to_text(chain_schedule(1, 3));
  EXPECT_THAT(text, HasSubstr("L0.bwd.m0    compute  0.down.weight.grad = linear_wgrad"));
  EXPECT_THAT(text, HasSubstr("L0.bwd.m1    compute  0.down.weight.grad+ = linear_wgrad"));
  EXPECT_THAT(text, HasSubstr("L0.bwd.m2    compute  0.down.weight.grad+ = linear_wgrad"));
  EXPECT_THAT(text, HasSubstr("head.bwd.m0  compute  loss, head.m0.loss.0.lse = cross_entropy"));
  EXPECT_THAT(text, HasSubstr("head.bwd.m1  compute  loss+, head.m1.loss.0.lse = cross_entropy"));
}

TEST(Verify, ScheduleRules) {
  const Schedule good = chain_schedule(1, 1);
  auto broken = [&](auto change) {
    Schedule schedule = good;
    change(schedule);
    EXPECT_THROW(verify(schedule), VerifyError);
  };
  auto first_free = [](Schedule& s) {
    return std::find_if(s.instrs.begin(), s.instrs.end(),
                        [](const Instr& i) { return i.op.kind == OpKind::kFree; });
  };
  broken([&](Schedule& s) { s.instrs.erase(first_free(s)); });                   // leaked
  broken([&](Schedule& s) { s.instrs.insert(first_free(s), *first_free(s)); });  // freed twice
  broken([](Schedule& s) { s.instrs.erase(s.instrs.begin()); });                 // read, not written
  broken([](Schedule& s) { s.instrs[1].slot = 0; s.instrs[0].slot = 1; });       // slots go back
  broken([](Schedule& s) { s.instrs[2].waits = {5}; });                          // waits for later
  broken([](Schedule& s) { s.instrs[2].waits = {1}; });                          // own stream
}

}  // namespace
}  // namespace spillway
