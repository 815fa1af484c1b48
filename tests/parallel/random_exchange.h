// Exchanges that every rank derives from a seed, so that each knows what the others send.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/world.h"

namespace spillway {

struct PlannedMessage {
  int from, to, number;  // its number among those from `from` to `to`
  int64_t bytes;
};

// None to three messages from each rank to each, also to itself, of 0 bytes to `largest`.
inline std::vector<PlannedMessage> plan_exchange(std::mt19937& random, int ranks, int64_t largest) {
  const int64_t sizes[] = {0, 1, 8, 1000, 4099, largest / 3, largest};
  std::vector<PlannedMessage> plan;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const auto count = static_cast<int>(random() % 4);
      for (int i = 0; i < count; ++i)
        plan.push_back({from, to, i, sizes[random() % std::size(sizes)]});
    }
  }
  return plan;
}

inline std::vector<uint8_t> message_bytes(const PlannedMessage& message, unsigned seed) {
  std::vector<uint8_t> bytes(static_cast<size_t>(message.bytes));
  uint32_t state = seed * 2654435761U +
                   static_cast<uint32_t>(message.from * 10007 + message.to * 101 + message.number);
  for (uint8_t& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

// One exchange of `world`; messages to different peers in an order of each rank's own. Throws when a
// byte is wrong.
inline void random_exchange(World& world, unsigned seed, int64_t largest) {
  std::mt19937 random(seed);
  const auto plan = plan_exchange(random, world.size(), largest);
  std::vector<PlannedMessage> out, in;
  for (const PlannedMessage& message : plan) {
    if (message.from == world.rank()) out.push_back(message);
    if (message.to == world.rank()) in.push_back(message);
  }
  // By peers in a shuffled order: between two ranks the order stays.
  std::vector<int> place(world.size());
  for (int i = 0; i < world.size(); ++i) place[i] = i;
  random.seed(seed + 1000003U * static_cast<unsigned>(world.rank() + 1));
  std::shuffle(place.begin(), place.end(), random);
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto& a, const auto& b) { return place[a.to] < place[b.to]; });
  std::shuffle(place.begin(), place.end(), random);
  std::stable_sort(in.begin(), in.end(),
                   [&](const auto& a, const auto& b) { return place[a.from] < place[b.from]; });

  std::vector<std::vector<uint8_t>> sent, received;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (const PlannedMessage& message : out) {
    sent.push_back(message_bytes(message, seed));
    sends.push_back({message.to, sent.back().data(), message.bytes});
  }
  for (const PlannedMessage& message : in) {
    received.emplace_back(static_cast<size_t>(message.bytes), uint8_t{0xee});
    receives.push_back({message.from, received.back().data(), message.bytes});
  }
  world.exchange(sends, receives);
  for (size_t i = 0; i < in.size(); ++i) {
    if (received[i] == message_bytes(in[i], seed)) continue;
    throw std::runtime_error("wrong bytes from rank " + std::to_string(in[i].from) + " at rank " +
                             std::to_string(in[i].to) + ", seed " + std::to_string(seed));
  }
}

}  // namespace spillway
