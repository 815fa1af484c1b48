// Which bytes of an arena are taken over which stretch of issue order: what placing buffers asks.
#pragma once

#include <cstdint>
#include <vector>

#include "program/plan.h"

namespace spillway {

// Bytes [begin, end) of an arena.
struct ByteRange {
  int64_t begin = 0, end = 0;
};

// Sorted ranges that neither meet nor touch.
class ByteSet {
 public:
  void add(ByteRange range);
  [[nodiscard]] const std::vector<ByteRange>& ranges() const { return ranges_; }

 private:
  std::vector<ByteRange> ranges_;
};

// A segment tree over instructions. Bytes taken side by side become one range, so that a packed arena
// is a handful of ranges however many buffers it holds: take() and taken() cost O(log instructions) of
// them.
class Occupancy {
 public:
  explicit Occupancy(int instructions);

  void take(Lifetime life, ByteRange range);
  // All bytes that somebody has at some instruction of `life`, sorted by begin; ranges may overlap.
  // Valid until the next call.
  [[nodiscard]] const std::vector<ByteRange>& taken(Lifetime life);

 private:
  struct Node {
    ByteSet whole;  // taken over all of the node's instructions
    ByteSet some;   // over at least one of them
  };
  void take(size_t node, Lifetime span, Lifetime life, ByteRange range);
  void collect(size_t node, Lifetime span, Lifetime life);

  Lifetime all_;
  std::vector<Node> nodes_;  // children of n: 2n + 1, 2n + 2
  std::vector<ByteRange> found_;
};

}  // namespace spillway
