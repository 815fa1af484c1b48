#include "program/text.h"

#include <gtest/gtest.h>

#include "parallel/order.h"
#include "program/error.h"
#include "program/plan.h"
#include "program/sync.h"
#include "program/verify.h"
#include "tests/program/mlp_block.h"

namespace spillway {
namespace {

TEST(Text, ProgramRoundTrip) {
  for (const Program& program : {mlp_block(), tail_block(), source_block()}) {
    const std::string text = to_text(program);
    const Program parsed = parse_program(text);
    verify(parsed);
    EXPECT_EQ(to_text(parsed), text);
  }
}

TEST(Text, ScheduleRoundTrip) {
  const Chain chain = mlp_chain(2);
  Schedule schedule = lower(chain.programs, chain.blocks, training_order(chain.blocks, 2));
  insert_sync(schedule, plan_memory(schedule));
  const std::string text = to_text(schedule);
  const Schedule parsed = parse_schedule(text);
  verify(parsed);
  EXPECT_EQ(to_text(parsed), text);
}

TEST(Text, ErrorsNameTheLine) {
  try {
    (void)parse_program("program p\n  value x f32[2]\nforward\n  y = add(x, x)\n");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "config error: line 4: config error: unknown tensor y");
  }
  EXPECT_THROW((void)parse_program("program p\n  value x f99[2]\n"), ConfigError);
  EXPECT_THROW((void)parse_schedule("instrs\n  L0.fwd.m0 nowhere free(x)\n"), ConfigError);
}

}  // namespace
}  // namespace spillway
