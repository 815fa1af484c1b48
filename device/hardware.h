// A machine as numbers: what device/sim runs a Schedule on. Read from configs/hardware/*.yaml
// (trainer/hardware_file.h); every number there has a mark and a source.
//
// Rates are decimal (1e9 bytes, 1e12 FLOP), memory is bytes, "per GPU" unless the name says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/op.h"

namespace spillway {

enum class Mark : uint8_t {
  kMeasured,       // on such hardware, by the source
  kSpecification,  // the vendor's
  kComputed,       // from other numbers of the file
  kAssumed,        // neither: a guess that somebody should measure
};

struct Figure {
  double value = 0;
  Mark mark = Mark::kAssumed;
  std::string source = {};
};

// Achieved TFLOP/s by shape. Between rows: interpolated in log(m n k) among the nearest shapes.
struct MatmulRow {
  double m, n, k;  // y[m,n] = x[m,k] . w[n,k]^T
  double tflops;
};

// A grouped product over `experts` of m rows each; dgrad and wgrad are the gradients of x and w.
struct GroupedRow {
  double experts, m, n, k;
  double tflops, dgrad_tflops, wgrad_tflops;
};

// Fused causal attention, true FLOPs (the causal half).
struct AttentionRow {
  double head_dim, v_head_dim, seq;
  double tflops, bwd_tflops;
};

enum class CollectiveKind : uint8_t { kAllGather, kReduceScatter, kAllToAll, kAllReduce };

// Algorithm bandwidth: bytes of the whole tensor (gathered output, reduced input, exchanged buffer)
// over time, in GB/s, inside one NVLink domain.
struct CollectiveRow {
  CollectiveKind kind;
  int ranks;
  double bytes;
  double gb_per_s;
};

// What an op that is bound by memory reaches: the bytes it moves (instr_bytes) over its time.
struct MemoryOpRow {
  OpKind op;
  double bytes;
  double gb_per_s;
};

// A table, with one mark and source for all its rows.
template <typename Row>
struct Table {
  std::vector<Row> rows = {};
  Mark mark = Mark::kAssumed;
  std::string source = {};
};

struct Hardware {
  std::string name;         // "gb200_nvl72"
  std::string title;        // "NVIDIA GB200 NVL72"
  bool preliminary = false;  // the vendor has not shipped it, or not said all

  // Layout. Ranks are numbered node by node; a domain is what one NVLink switch connects.
  int gpus_per_socket = 1, gpus_per_node = 8, gpus_per_domain = 8;

  Figure hbm_bytes, hbm_gb_per_s;
  Figure hbm_fraction;      // of hbm_gb_per_s that a memory-bound kernel reaches
  Figure reserve_bytes;     // outside the plan: context, library workspaces, collective buffers
  Figure bf16_tflops, fp8_tflops, f32_tflops;  // peaks, dense; f32: vector units
  // Of a burst product's rate that a long run holds under its power limit: for the matmul tables, which
  // are bursts; grouped products and attention are measured sustained.
  Figure sustained_fraction;
  Figure launch_us;           // of a kernel, on the device
  Figure wait_us;  // more, of an instruction that waits for another stream; optional: 0

  Figure host_bytes_per_socket, host_gb_per_s_per_socket;  // memory of a CPU socket
  Figure d2h_gb_per_s, h2d_gb_per_s;  // host link, one direction at a time
  // Of the multiprocessors that a running copy takes; optional: 0, for machines with copy engines.
  Figure copy_sm_share;
  Figure far_socket_fraction;         // of that, when the pinned memory is on the other socket

  Figure nic_gb_per_s;         // out of the domain, each direction
  Figure nic_latency_us;
  Figure collective_sm_share;  // of the multiprocessors that a running collective takes

  Table<MatmulRow> bf16_matmul, fp8_matmul;
  Table<MatmulRow> f32_matmul;  // both operands f32; optional: f32_tflops
  Table<GroupedRow> bf16_grouped;
  Table<AttentionRow> bf16_attention;
  Table<CollectiveRow> collectives;
  // Optional. Between an op's rows: interpolated in log(bytes), the ends hold; an op without rows moves
  // hbm_gb_per_s x hbm_fraction.
  Table<MemoryOpRow> memory_ops;
};

}  // namespace spillway
