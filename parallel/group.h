// The ranks of a group, as a collective sees them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/mesh.h"
#include "parallel/world.h"

namespace spillway {

// Part p of `total` elements over `parts`: s = ceil(total / parts) each, less in the last ones.
struct Part {
  int64_t begin, end;
};
[[nodiscard]] Part part_of(int64_t total, int parts, int part);

// What a device needs to run collectives. Both outlive it.
struct Communicator {
  World* world = nullptr;
  Mesh mesh;
};

// Messages among the ranks of one group, by index in the group. Refers to the World.
class Group {
 public:
  Group(const Communicator& communicator, uint8_t axes);

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int index() const { return index_; }

  // As World::exchange, peers being indices. Allocates only until the largest exchange has been seen.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives);
  // `whole` becomes the parts of all members (part_of, in bytes of `element` each); `mine` may lie in
  // it at its place.
  void all_gather(const std::byte* mine, std::byte* whole, int64_t elements, int64_t element);

 private:
  World* world_;
  std::vector<int> ranks_;
  int index_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
};

}  // namespace spillway
