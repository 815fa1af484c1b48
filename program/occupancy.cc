#include "program/occupancy.h"

#include <algorithm>
#include <bit>

namespace spillway {
namespace {

bool meet(Lifetime a, Lifetime b) { return a.first <= b.last && b.first <= a.last; }
bool covers(Lifetime a, Lifetime b) { return a.first <= b.first && b.last <= a.last; }
int middle(Lifetime span) { return span.first + (span.last - span.first) / 2; }

}  // namespace

void ByteSet::add(ByteRange range) {
  const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &ByteRange::end);
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range = {std::min(range.begin, last->begin), std::max(range.end, last->end)};
  }
  if (first == last) {
    ranges_.insert(first, range);
  } else {
    *first = range;
    ranges_.erase(first + 1, last);
  }
}

Occupancy::Occupancy(int instructions)
    : all_{0, std::max(instructions, 1) - 1},
      nodes_(2 * std::bit_ceil(static_cast<size_t>(all_.last) + 1)) {}

void Occupancy::take(Lifetime life, ByteRange range) { take(0, all_, life, range); }

const std::vector<ByteRange>& Occupancy::taken(Lifetime life) {
  found_.clear();
  collect(0, all_, life);
  std::ranges::sort(found_, {}, &ByteRange::begin);
  return found_;
}

void Occupancy::take(size_t node, Lifetime span, Lifetime life, ByteRange range) {
  if (!meet(span, life)) return;
  nodes_[node].some.add(range);
  if (covers(life, span)) {
    nodes_[node].whole.add(range);
    return;
  }
  take(2 * node + 1, {span.first, middle(span)}, life, range);
  take(2 * node + 2, {middle(span) + 1, span.last}, life, range);
}

void Occupancy::collect(size_t node, Lifetime span, Lifetime life) {
  if (!meet(span, life)) return;
  const bool all = covers(life, span);
  const ByteSet& set = all ? nodes_[node].some : nodes_[node].whole;
  found_.insert(found_.end(), set.ranges().begin(), set.ranges().end());
  if (all) return;
  collect(2 * node + 1, {span.first, middle(span)}, life);
  collect(2 * node + 2, {middle(span) + 1, span.last}, life);
}

}  // namespace spillway
