#include "parallel/group.h"

#include <algorithm>
#include <cstring>

namespace spillway {

Part part_of(int64_t total, int parts, int part) {
  const int64_t step = (total + parts - 1) / parts;
  return {std::min(total, step * part), std::min(total, step * (part + 1))};
}

Group::Group(const Communicator& communicator, uint8_t axes)
    : world_(communicator.world),
      ranks_(communicator.mesh.group(axes)),
      index_(communicator.mesh.index(axes)) {}

void Group::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  if (sends.empty() && receives.empty()) return;
  sends_.assign(sends.begin(), sends.end());
  receives_.assign(receives.begin(), receives.end());
  for (Send& send : sends_) send.peer = ranks_.at(send.peer);
  for (Receive& receive : receives_) receive.peer = ranks_.at(receive.peer);
  world_->exchange(sends_, receives_);
}

void Group::all_gather(const std::byte* mine, std::byte* whole, int64_t elements, int64_t element) {
  const auto place = [&](int index) { return part_of(elements, size(), index).begin * element; };
  const auto bytes = [&](int index) {
    const Part part = part_of(elements, size(), index);
    return (part.end - part.begin) * element;
  };
  if (mine != whole + place(index_) && bytes(index_) > 0) {
    std::memcpy(whole + place(index_), mine, static_cast<size_t>(bytes(index_)));
  }
  if (size() == 1) return;
  sends_.clear();
  receives_.clear();
  // Everyone begins with its next neighbour, so that no rank is everyone's first.
  for (int step = 1; step < size(); ++step) {
    const int to = (index_ + step) % size(), from = (index_ + size() - step) % size();
    sends_.push_back({ranks_[to], mine, bytes(index_)});
    receives_.push_back({ranks_[from], whole + place(from), bytes(from)});
  }
  world_->exchange(sends_, receives_);
}

}  // namespace spillway
