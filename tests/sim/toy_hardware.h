// A machine of round numbers.
#pragma once

#include "device/hardware.h"

namespace spillway {

inline Hardware toy_hardware() {
  const auto figure = [](double value) { return Figure{value, Mark::kAssumed, "a toy"}; };
  Hardware h;
  h.name = "toy";
  h.title = "toy";
  h.gpus_per_socket = 2;
  h.gpus_per_node = 4;
  h.gpus_per_domain = 8;
  h.hbm_bytes = figure(100e9);
  h.hbm_gb_per_s = figure(1000);
  h.hbm_fraction = figure(0.8);
  h.reserve_bytes = figure(1e9);
  h.bf16_tflops = figure(100);
  h.fp8_tflops = figure(200);
  h.f32_tflops = figure(50);
  h.sustained_fraction = figure(0.9);
  h.launch_us = figure(1);
  h.host_bytes_per_socket = figure(400e9);
  h.host_gb_per_s_per_socket = figure(300);
  h.d2h_gb_per_s = figure(50);
  h.h2d_gb_per_s = figure(50);
  h.far_socket_fraction = figure(0.5);
  h.nic_gb_per_s = figure(25);
  h.nic_latency_us = figure(10);
  h.collective_sm_share = figure(0.1);
  h.bf16_matmul = {{{256, 256, 256, 20}, {4096, 4096, 4096, 80}}, Mark::kAssumed, "a toy"};
  h.fp8_matmul = h.bf16_matmul;
  h.bf16_grouped = {{{8, 256, 256, 256, 15, 14, 10}, {8, 4096, 4096, 4096, 70, 65, 60}},
                    Mark::kAssumed, "a toy"};
  h.bf16_attention = {{{128, 128, 4096, 60, 40}}, Mark::kAssumed, "a toy"};
  using enum CollectiveKind;
  for (CollectiveKind kind : {kAllGather, kReduceScatter, kAllToAll, kAllReduce}) {
    for (int ranks : {2, 8}) {
      for (double mib : {1.0, 64.0, 1024.0}) {
        h.collectives.rows.push_back({kind, ranks, mib * (1 << 20), 100 * mib / (mib + 4)});
      }
    }
  }
  return h;
}

}  // namespace spillway
