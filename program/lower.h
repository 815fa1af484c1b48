// Lowering: Programs and a step order become a Schedule, all on the compute stream.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"
#include "program/schedule.h"

namespace spillway {

// A place in the model where a Program runs.
// A Program whose output is its input adds to the loss and lets the residual stream pass.
struct Block {
  std::string label;   // "embed", "L0", ..., "head"
  std::string prefix;  // of its parameters' names: "model.layers.0."; "" when they are global
  int program = 0;     // index into the list of Programs
  int evaluation = -1;  // what runs instead in Phase::kEval; -1: `program`, its forward list
  int optimizer = -1;   // its optimizer Program: forward is Phase::kNorm, backward kUpdate; -1: none
};

// The name of a parameter, gradient or state in the model: a complete name is its own, others follow
// the block's prefix.
[[nodiscard]] std::string full_name(const Block& block, const Tensor& tensor);

// One slot to run: which block, which phase, which micro-batch.
struct SlotOrder {
  int block = 0;
  Phase phase = Phase::kForward;
  int micro_batch = 0;
};

// Emits every slot in order, one buffer for each tensor instance, frees at last use. In the result:
// - what outlives a step is persistent and comes first: parameters, state, constants, step io;
// - the first accumulation of a step into a gradient or a step output is a plain write;
// - a value read in a later phase is an activation of its block; others are workspace.
// Postcondition: verify(schedule) holds; every instruction is on Stream::kCompute.
[[nodiscard]] Schedule lower(const std::vector<Program>& programs, const std::vector<Block>& blocks,
                             const std::vector<SlotOrder>& order);

// Adds a kFree after the last use of every buffer that is neither persistent nor freed already.
void free_at_last_use(Schedule& schedule);

}  // namespace spillway
