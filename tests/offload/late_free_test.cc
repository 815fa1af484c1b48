#include "offload/late_free.h"

#include <gmock/gmock.h>

#include <string>

namespace spillway {
namespace {

using ::testing::ElementsAre;
using enum OpKind;

// A slot in which a collective reads `a` and gives `b`, with `other` work behind it.
class LateFree : public ::testing::Test {
 protected:
  LateFree() {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      schedule_.buffers.push_back({.name = name, .shape = {4}, .memory = MemoryClass::kActivation});
    }
    schedule_.slots = {{"L0", Phase::kForward, 0}, {"L1", Phase::kForward, 0}};
  }

  void add(OpKind kind, std::vector<TensorId> in, std::vector<TensorId> out, int slot = 0) {
    Instr instr{.slot = slot};
    instr.stream = is_collective(kind) ? Stream::kComm : Stream::kCompute;
    instr.op = {.kind = kind, .in = std::move(in), .out = std::move(out)};
    schedule_.instrs.push_back(std::move(instr));
  }

  std::vector<std::string> order() const {
    std::vector<std::string> result;
    for (const Instr& instr : schedule_.instrs) {
      const std::string& first =
          schedule_.buffers[instr.op.kind == kFree ? instr.op.in[0] : instr.op.out[0]].name;
      result.push_back((instr.op.kind == kFree ? "free " : "") + first);
    }
    return result;
  }

  static constexpr TensorId a = 0, b = 1, c = 2, d = 3, e = 4;
  Schedule schedule_;
};

TEST_F(LateFree, WaitsForTheFirstUseOfTheResult) {
  add(kAdd, {c, c}, {a});
  add(kAllGather, {a}, {b});
  add(kFree, {a}, {});
  add(kAdd, {c, c}, {d});
  add(kFree, {c}, {});
  add(kAdd, {b, d}, {e});
  free_behind_collectives(schedule_);
  EXPECT_THAT(order(), ElementsAre("a", "b", "d", "free c", "free a", "e"));
}

TEST_F(LateFree, StaysWhereTheResultIsUsedAtOnceOrInAnotherSlot) {
  add(kAllGather, {a}, {b});
  add(kFree, {a}, {});
  add(kAdd, {c, c}, {d}, 1);
  add(kAdd, {b, d}, {e}, 1);
  free_behind_collectives(schedule_);
  EXPECT_THAT(order(), ElementsAre("b", "free a", "d", "e"));
}

TEST_F(LateFree, LeavesSumsOfGradientsAlone) {
  schedule_.buffers[b].memory = MemoryClass::kGradient;
  add(kReduceScatter, {a}, {b});
  add(kFree, {a}, {});
  add(kAdd, {c, c}, {d});
  add(kAdd, {b, d}, {e});
  free_behind_collectives(schedule_);
  EXPECT_THAT(order(), ElementsAre("b", "free a", "d", "e"));
}

// A free that stands behind the use, since something else still reads the source, stays there.
TEST_F(LateFree, NeverMovesAFreeForward) {
  add(kAllGather, {a}, {b});
  add(kAdd, {b, a}, {d});
  add(kFree, {a}, {});
  free_behind_collectives(schedule_);
  EXPECT_THAT(order(), ElementsAre("b", "d", "free a"));
}

}  // namespace
}  // namespace spillway
