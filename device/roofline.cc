#include "device/roofline.h"

#include <algorithm>
#include <thread>

namespace spillway {
namespace {

// Per core of a processor of this decade: AVX2 products, and its share of memory bandwidth.
constexpr double kCoreFlopsPerS = 60e9, kMemoryBytesPerS = 15e9, kCopyBytesPerS = 5e9;
// Open MPI between two ranks of one machine gives 3 to 4 GB/s.
constexpr double kCommBytesPerS = 4e9;

}  // namespace

Roofline::Roofline(const DeviceOptions& options) {
  const unsigned cores = options.threads > 0 ? static_cast<unsigned>(options.threads)
                                             : std::max(1U, std::thread::hardware_concurrency());
  flops_per_s_ = options.peak_tflops > 0 ? options.peak_tflops * 1e12 : cores * kCoreFlopsPerS;
  hbm_bytes_per_s_ = options.hbm_gb_per_s > 0 ? options.hbm_gb_per_s * 1e9 : kMemoryBytesPerS;
  link_bytes_per_s_ = options.link_gb_per_s > 0 ? options.link_gb_per_s * 1e9 : kCopyBytesPerS;
  comm_bytes_per_s_ = options.comm_gb_per_s > 0 ? options.comm_gb_per_s * 1e9 : kCommBytesPerS;
}

double Roofline::seconds(const Schedule& schedule, const Instr& instr) const {
  if (instr.op.kind == OpKind::kFree) return 0;
  if (is_collective(instr.op.kind)) {
    return static_cast<double>(sent_bytes(schedule, instr)) / comm_bytes_per_s_;
  }
  const auto bytes = static_cast<double>(instr_bytes(schedule, instr));
  if (instr.op.kind == OpKind::kCopy) return bytes / 2 / link_bytes_per_s_;  // read once, written once
  return std::max(static_cast<double>(instr_flops(schedule, instr)) / flops_per_s_,
                  bytes / hbm_bytes_per_s_);
}

}  // namespace spillway
