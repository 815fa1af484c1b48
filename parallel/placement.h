// Where the tensor axis leaves the values of an op: the rules that parallel/shard follows.
#pragma once

#include <string_view>

#include "program/program.h"

namespace spillway {

// What a rank of a tensor group has of a value.
enum class Placement : char {
  kRows = 'R',     // its share of the rows (tokens)
  kColumns = 'C',  // its share of the columns (heads, feed-forward width, vocabulary)
  kWhole = 'W',    // all of it, the same on every rank
  kPartial = 'P',  // a summand: the value is the sum over the ranks
  kOwn = '-',      // not a value: a parameter, gradient, constant or step io, as it is
};

// Letters of Placement, one an operand.
struct PlacementRule {
  std::string_view in, out;
};

// What `op` needs and gives. Where a rule has a choice, `first` is what its first input has.
[[nodiscard]] PlacementRule placement_rule(const Program& program, const Op& op, Placement first);

// Corrects attributes that count heads, and losses that every rank adds, after inputs have become
// local. `parts`: ranks of the tensor axis.
void localize_attrs(const Program& local, Op& op, int parts);

}  // namespace spillway
