// Divided parameters: where their parts are gathered, and their gradients summed over ranks.
#pragma once

#include "parallel/mesh.h"
#include "program/schedule.h"

namespace spillway {

struct Gathering {
  // kFull: whole parameters and gradients exist only in the slots that use them (ZeRO-3).
  // kOptimizer: they exist for the whole step; between steps only a part does (ZeRO-1).
  enum class Mode : uint8_t { kFull, kOptimizer } mode = Mode::kFull;
};

// Divides every parameter, gradient and optimizer state with shard_axes over the n ranks of that
// group, when n > 1: its buffer keeps its name and place and becomes one's own part, ceil(N / n)
// elements, and the optimizer works on parts unchanged. A span is a slot (kFull) or the step
// (kOptimizer). Forward, backward and evaluation use whole buffers instead, "NAME@full", in kFull
// "SLOT.NAME@full":
// - a parameter's is gathered before its first use in a span and freed after the last;
// - a gradient's is reduced after its last use in a span, then freed. The first of the step writes
//   the part, later ones add to it.
// Then, where there are other ranks to sum over:
// - gradients, over kData after their last use in backward;
// - step outputs of forward, backward and evaluation (loss, expert load), over kBatch once all are
//   there: before the norm, or at the end;
// - step outputs of the norm, over kShard after their last write. Not over kData: replicas hold the
//   same gradient. Every parameter is divided over all of kShard, so each element counts once.
//
// Requires: lower()'s Schedule, before transfer(). All on the compute stream, before and after.
// Afterwards no buffer has shard_axes; what is persistent has the same order and shapes in every
// Schedule of a model. Throws VerifyError when an update's operands are not divided alike.
void gather(Schedule& schedule, const Mesh& mesh, const Gathering& gathering);

}  // namespace spillway
