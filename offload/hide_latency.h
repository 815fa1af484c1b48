// The latency-hiding scheduler for host copies.
#pragma once

#include "program/cost_model.h"
#include "program/schedule.h"

namespace spillway {

struct LatencyHiding {
  // false: a copy overlaps compute of the layer that defines or reads its tensor. true: also of the
  // next layer in forward (copy out) and of the layer before in backward order (copy back).
  bool pipelined = false;
  // Copies between issue and completion at once, each direction. An instruction that reads more
  // landing tensors than this gets them all.
  int max_inflight_async = 8;
  // Copies are taken to last this many times their estimate: the larger, the earlier they start and
  // the more memory they hold. 0: no overlap beyond the copy's own place.
  double margin = 2;
};

// Moves the copies that transfer() placed onto the d2h and h2d streams. A copy out is issued right
// after its tensor's definition and its buffer is freed once the estimate says that the copy is done;
// a copy back is issued just early enough for the estimate to be done at its use. Both stay inside
// the window above and under the in-flight limit.
// Afterwards every kCopy is on kD2h or kH2d; frees of HBM stay on kCompute.
void hide_latency(Schedule& schedule, const LatencyHiding& options, const CostModel& cost);

}  // namespace spillway
