// How a hardware file spells its figures and enumerations: read by load_hardware, written by
// hardware_text.
#pragma once

#include <array>

#include "device/hardware.h"
#include "trainer/yaml_section.h"

namespace spillway {

inline constexpr std::array<Spelling<Mark>, 4> kMarks{{{"measured", Mark::kMeasured},
                                                       {"specification", Mark::kSpecification},
                                                       {"computed", Mark::kComputed},
                                                       {"assumed", Mark::kAssumed}}};

inline constexpr std::array<Spelling<CollectiveKind>, 4> kCollectives{
    {{"all_gather", CollectiveKind::kAllGather},
     {"reduce_scatter", CollectiveKind::kReduceScatter},
     {"all_to_all", CollectiveKind::kAllToAll},
     {"all_reduce", CollectiveKind::kAllReduce}}};

inline constexpr RealRange kFraction{.min = 0, .max = 1, .min_open = true};
inline constexpr RealRange kShare{.min = 0, .max = 1, .max_open = true};

struct FigureKey {
  const char* key;
  Figure Hardware::*figure;
  RealRange range = kAboveZero;
  bool optional = false;
};
inline constexpr std::array<FigureKey, 19> kFigures{{
    {"hbm_bytes", &Hardware::hbm_bytes},
    {"hbm_gb_per_s", &Hardware::hbm_gb_per_s},
    {"hbm_fraction", &Hardware::hbm_fraction, kFraction},
    {"reserve_bytes", &Hardware::reserve_bytes},
    {"bf16_tflops", &Hardware::bf16_tflops},
    {"fp8_tflops", &Hardware::fp8_tflops},
    {"f32_tflops", &Hardware::f32_tflops},
    {"sustained_fraction", &Hardware::sustained_fraction, kFraction},
    {"launch_us", &Hardware::launch_us},
    {"wait_us", &Hardware::wait_us, kZeroOrMore, true},
    {"host_bytes_per_socket", &Hardware::host_bytes_per_socket},
    {"host_gb_per_s_per_socket", &Hardware::host_gb_per_s_per_socket},
    {"d2h_gb_per_s", &Hardware::d2h_gb_per_s},
    {"h2d_gb_per_s", &Hardware::h2d_gb_per_s},
    {"copy_sm_share", &Hardware::copy_sm_share, kShare, true},
    {"far_socket_fraction", &Hardware::far_socket_fraction, kFraction},
    {"nic_gb_per_s", &Hardware::nic_gb_per_s},
    {"nic_latency_us", &Hardware::nic_latency_us},
    {"collective_sm_share", &Hardware::collective_sm_share, kFraction},
}};

// The names of tables' rows, which spell their columns.
namespace rows_key {
inline constexpr const char* kMatmul = "rows_m_n_k_tflops";
inline constexpr const char* kGrouped = "rows_experts_m_n_k_tflops_dgrad_tflops_wgrad_tflops";
inline constexpr const char* kAttention = "rows_head_dim_v_head_dim_seq_tflops_bwd_tflops";
inline constexpr const char* kCollectives = "rows_kind_ranks_mib_gb_per_s";
inline constexpr const char* kMemoryOps = "rows_op_mib_gb_per_s";
}  // namespace rows_key

}  // namespace spillway
