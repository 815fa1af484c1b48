// Rules of World::exchange that every kind of world keeps.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "parallel/world.h"

namespace spillway {

// Throws std::out_of_range when a peer is not one of `size` ranks.
inline void check_peers(int size, std::span<const Send> sends, std::span<const Receive> receives) {
  const auto check = [size](int peer) {
    if (peer >= 0 && peer < size) return;
    throw std::out_of_range("exchange with rank " + std::to_string(peer) + " of " +
                            std::to_string(size));
  };
  for (const Send& send : sends) check(send.peer);
  for (const Receive& receive : receives) check(receive.peer);
}

// What a rank says whose message is not of the size that `receiver` asked for.
[[nodiscard]] inline std::string size_mismatch(int sender, int64_t sent, int receiver,
                                               int64_t expected) {
  return "rank " + std::to_string(sender) + ": sends " + std::to_string(sent) +
         " bytes where rank " + std::to_string(receiver) + " expects " + std::to_string(expected);
}

// Carries out the messages from `rank` to itself, and leaves the others. Throws RankFailed when its
// sends and receives do not match.
inline void exchange_with_self(int rank, std::span<const Send> sends,
                               std::span<const Receive> receives) {
  const auto mine = [rank](const auto& message) { return message.peer == rank; };
  auto receive = std::find_if(receives.begin(), receives.end(), mine);
  auto send = std::find_if(sends.begin(), sends.end(), mine);
  while (send != sends.end() && receive != receives.end()) {
    if (send->bytes != receive->bytes) {
      throw RankFailed(size_mismatch(rank, send->bytes, rank, receive->bytes));
    }
    if (send->bytes > 0) {
      std::memmove(receive->data, send->data, static_cast<size_t>(send->bytes));
    }
    receive = std::find_if(receive + 1, receives.end(), mine);
    send = std::find_if(send + 1, sends.end(), mine);
  }
  if (send != sends.end() || receive != receives.end()) {
    throw RankFailed("rank " + std::to_string(rank) +
                     ": sends itself more or fewer messages than it receives");
  }
}

}  // namespace spillway
