// Looking up rates between the rows of a hardware file's tables.
#pragma once

#include "device/hardware.h"

namespace spillway::sim {

// Achieved FLOP/s. Rows nearest in (log m, log n, log k) count most: inverse-square weights of the
// four nearest, so a shape of the table gets its own row.
[[nodiscard]] double matmul_flop_per_s(const Table<MatmulRow>& table, double m, double n, double k);

enum class Pass : uint8_t { kForward, kDgrad, kWgrad };
[[nodiscard]] double grouped_flop_per_s(const Table<GroupedRow>& table, Pass pass, double experts,
                                        double m, double n, double k);
[[nodiscard]] double attention_flop_per_s(const Table<AttentionRow>& table, bool backward,
                                          double head_dim, double v_head_dim, double seq);

// Seconds of a collective of `bytes` (CollectiveRow) among `ranks` of one domain: interpolated in
// log(time) over log(bytes) and log(ranks); above the largest size its bandwidth. Below the smallest
// its time, when that is a size where starting is all that counts (1 MiB); else its bandwidth down to
// 50 us, an assumption.
[[nodiscard]] double collective_seconds(const Table<CollectiveRow>& table, CollectiveKind kind,
                                        int ranks, double bytes);

}  // namespace spillway::sim
