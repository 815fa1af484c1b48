#include "device/sim/rank_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "program/error.h"

namespace spillway::sim {
namespace {

// A job takes equal parts of as few domains as hold it, in whole nodes: 128 ranks take 64 of two racks'
// 72 GPUs each.
int ranks_of_domain(const Hardware& hardware, const Mesh& mesh) {
  const auto parts = [&](int whole) { return (mesh.ranks() + whole - 1) / whole; };
  const int domains = parts(hardware.gpus_per_domain), nodes = parts(hardware.gpus_per_node);
  return (nodes + domains - 1) / domains * hardware.gpus_per_node;
}

// Calls visit(rank, span) for every rank of a group, which is in order: domains are runs of it.
template <typename Visit>
void visit_spans(const std::vector<int>& group, int domain, const Visit& visit) {
  int domains = 1;
  for (size_t i = 1; i < group.size(); ++i) domains += group[i] / domain != group[i - 1] / domain;
  for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
    while (end < group.size() && group[end] / domain == group[begin] / domain) ++end;
    for (size_t i = begin; i < end; ++i) {
      visit(group[i], Span{static_cast<int>(end - begin), domains});
    }
  }
}

// What tells a rank from others.
struct Signature {
  bool hot = false;
  std::vector<Span> spans;  // by set of axes
  auto operator<=>(const Signature&) const = default;
};

std::vector<Signature> signatures(const Mesh& mesh, std::span<const uint8_t> sets, int domain) {
  std::vector<Signature> all(static_cast<size_t>(mesh.ranks()));
  for (uint8_t axes : sets) {
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Mesh at = mesh.at(rank);
      if (at.index(axes) != 0) continue;  // each group once
      visit_spans(at.group(axes), domain, [&](int member, const Span& span) {
        all[static_cast<size_t>(member)].spans.push_back(span);
      });
    }
  }
  return all;
}

// Whether experts of different ranks get different numbers of rows.
bool skewed(double load, const Mesh& mesh, std::span<const uint8_t> sets) {
  const int ranks = mesh.size(axis::kExpert);
  const bool exchanged = ranks > 1 && std::ranges::count(sets, axis::kExpert) > 0;
  if (!(load >= 1) || (exchanged && load > ranks)) {
    throw ConfigError(fmt::format("hottest_expert_load {} is not from 1 to {}, the ranks of an expert "
                                  "group: one rank cannot get more than all rows",
                                  load, ranks));
  }
  return exchanged && load != 1;
}

}  // namespace

RankClass balanced_rank(const Hardware& hardware, const Mesh& mesh) {
  RankClass result{.rank = mesh.rank()};
  const int domain = ranks_of_domain(hardware, mesh);
  for (int axes = 0; axes <= axis::kAll; ++axes) {
    visit_spans(mesh.group(static_cast<uint8_t>(axes)), domain, [&](int rank, const Span& span) {
      if (rank == mesh.rank()) result.spans[static_cast<size_t>(axes)] = span;
    });
  }
  return result;
}

std::vector<RankClass> rank_classes(const Hardware& hardware, const Mesh& mesh,
                                    std::span<const uint8_t> axes, const Assumptions& assumptions) {
  const double hottest = assumptions.hottest_expert_load;
  const bool uneven = skewed(hottest, mesh, axes);
  const double others = (mesh.size(axis::kExpert) - hottest) / (mesh.size(axis::kExpert) - 1);

  std::vector<Signature> all = signatures(mesh, axes, ranks_of_domain(hardware, mesh));
  std::map<Signature, size_t> index;
  std::vector<RankClass> classes;
  const auto count = [&](int rank, int ranks) {
    Signature& signature = all[static_cast<size_t>(rank)];
    signature.hot = uneven && mesh.at(rank).index(axis::kExpert) == 0;
    const auto [found, is_new] = index.try_emplace(signature, classes.size());
    if (is_new) {
      classes.push_back(balanced_rank(hardware, mesh.at(rank)));
      classes.back().ranks = 0;
      if (uneven) classes.back().expert_load = signature.hot ? hottest : others;
    }
    classes[found->second].ranks += ranks;
  };
  count(mesh.rank(), 0);  // its class is the first
  for (int rank = 0; rank < mesh.ranks(); ++rank) count(rank, 1);
  return classes;
}

}  // namespace spillway::sim
