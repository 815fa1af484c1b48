// The latency-hiding scheduler: copies and collectives run beside compute.
#pragma once

#include "program/cost_model.h"
#include "program/schedule.h"

namespace spillway {

struct LatencyHiding {
  // false: a copy overlaps compute of the layer that defines or reads its tensor. true: also of the
  // next layer in forward (copy out) and of the layer before in backward order (copy back).
  bool pipelined = false;
  // Slots ahead of its first reader in which a parameter may be gathered, and behind its last write
  // in which a whole gradient waits to be reduced. 0: within the slot.
  int gather_ahead = 1;
  // Between issue and completion at once, of each: copies out, copies back, gathers, reduces. An
  // instruction that reads more landing tensors than this gets them all.
  int max_inflight_async = 8;
  // They are taken to last this many times their estimate: the larger, the earlier they start and
  // the more memory they hold. 0: no overlap beyond their own place.
  double margin = 2;
};

// Moves what transfer() and gather() placed onto streams of their own:
// - copies out (d2h) and sums of gradients over ranks (comm) are issued right after their source is
//   complete; the source is freed once the estimate says that they are done;
// - copies back (h2d) and gathers of parameters (comm) are issued just early enough for the
//   estimate to be done at their first use.
// All stay inside the windows above and under the in-flight limit, except where something needs
// their result earlier. Every other collective goes onto the comm stream in its place.
// Afterwards every kCopy is on kD2h or kH2d and every collective on kComm; frees of HBM stay on
// kCompute.
//
// Ranks meet in their collectives: each must run them in the same order, or all wait forever. Hence
// one stream for all collectives of a Schedule, here kComm, without this pass kCompute; and the
// same Schedule on every rank: options and cost must not depend on the rank.
void hide_latency(Schedule& schedule, const LatencyHiding& options, const CostModel& cost);

}  // namespace spillway
