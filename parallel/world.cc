#include "parallel/world.h"

#include "parallel/messages.h"

namespace spillway {
namespace {

class SoloWorld final : public World {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int local_size() const override { return 1; }
  [[nodiscard]] int local_rank() const override { return 0; }
  [[nodiscard]] std::string engine() const override { return "one process"; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_peers(1, sends, receives);
    exchange_with_self(0, sends, receives);
  }
  void abort(const std::string& /*message*/) override {}  // nobody waits
};

// Every rank's block of `bytes` at `mine`, in rank order.
template <typename T>
std::vector<T> from_all(World& world, std::span<const T> mine) {
  const auto bytes = static_cast<int64_t>(mine.size_bytes());
  std::vector<T> all(mine.size() * static_cast<size_t>(world.size()));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < world.size(); ++peer) {
    sends.push_back({peer, mine.data(), bytes});
    receives.push_back({peer, all.data() + mine.size() * static_cast<size_t>(peer), bytes});
  }
  world.exchange(sends, receives);
  return all;
}

}  // namespace

std::unique_ptr<World> solo_world() { return std::make_unique<SoloWorld>(); }

std::vector<std::string> all_texts(World& world, const std::string& mine) {
  const auto length = static_cast<int64_t>(mine.size());
  const std::vector<int64_t> lengths = from_all(world, std::span(&length, 1));
  std::vector<std::string> texts;
  for (int64_t bytes : lengths) texts.emplace_back(static_cast<size_t>(bytes), '\0');
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < world.size(); ++peer) {
    sends.push_back({peer, mine.data(), length});
    receives.push_back({peer, texts[peer].data(), lengths[peer]});
  }
  world.exchange(sends, receives);
  return texts;
}

void sum_over_ranks(World& world, std::span<int64_t> values) {
  const std::vector<int64_t> all = from_all<int64_t>(world, values);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (size_t at = i; at < all.size(); at += values.size()) values[i] += all[at];
  }
}

}  // namespace spillway
