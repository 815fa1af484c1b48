// Ranks that run the same Schedule at different costs: where their groups lie on the machine's NVLink
// domains, and how many rows their experts get.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/hardware.h"
#include "device/sim/assumptions.h"
#include "parallel/mesh.h"

namespace spillway::sim {

// A group by NVLink domain, as one of its ranks sees it.
struct Span {
  int inside = 1, domains = 1;  // ranks in this rank's domain; domains of the group
  auto operator<=>(const Span&) const = default;
};

struct RankClass {
  int rank = 0;   // a rank of it
  int ranks = 1;  // how many there are
  std::array<Span, axis::kAll + 1> spans = {};  // of its groups, by their axes
  double expert_load = 1;  // rows its experts get, over those of balanced routing
};

// The class of mesh.rank() with balanced routing; ranks is 1.
[[nodiscard]] RankClass balanced_rank(const Hardware& hardware, const Mesh& mesh);

// All ranks of the mesh, that of mesh.rank() first. `axes`: the sets over which the Schedule's collectives
// go; ranks that these tell not apart are one class. Linear in ranks. Throws ConfigError when
// assumptions.hottest_expert_load is more than an expert group has.
[[nodiscard]] std::vector<RankClass> rank_classes(const Hardware& hardware, const Mesh& mesh,
                                                  std::span<const uint8_t> axes,
                                                  const Assumptions& assumptions);

}  // namespace spillway::sim
