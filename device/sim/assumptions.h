// Readings of a benchmark that neither a Schedule nor a hardware file says: what a program that is not
// ours may have done, and how a machine may have been used.
#pragma once

namespace spillway::sim {

struct Assumptions {
  // 1: routing is balanced. 1.5: one rank's experts get 1.5 times the balanced rows, the others share
  // the rest.
  double hottest_expert_load = 1;
  bool far_socket = false;  // pinned memory lies on the other socket: Hardware::far_socket_fraction
  // Copies between HBM and host by kernels, which take collective_sm_share of the multiprocessors while
  // they run, in place of the copy engines.
  bool kernel_copies = false;
  // Dispatch and combine as products with one-hot masks [tokens, slots], slots = experts x capacity of a
  // sequence; 0: they move rows. The masks' memory is not planned.
  double one_hot_slots = 0;
  bool one_hot_fp8 = false;  // those products in FP8, else in bf16

  bool operator==(const Assumptions&) const = default;
};

}  // namespace spillway::sim
