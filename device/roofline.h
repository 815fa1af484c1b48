// A roofline estimate of each instruction, for the passes that place copies.
#pragma once

#include "device/device.h"
#include "program/cost_model.h"

namespace spillway {

// Seconds = the slower of arithmetic and memory traffic; a copy takes bytes / link speed, a
// collective the bytes that this rank sends / the speed between ranks, a free nothing. What the
// options leave unknown is taken from kind: a modest processor for cpu.
class Roofline : public CostModel {
 public:
  explicit Roofline(const DeviceOptions& options);
  [[nodiscard]] double seconds(const Schedule& schedule, const Instr& instr) const override;

 private:
  double flops_per_s_, hbm_bytes_per_s_, link_bytes_per_s_, comm_bytes_per_s_;
};

}  // namespace spillway
