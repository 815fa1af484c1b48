// Ranks that are threads of one process. A sender posts where its bytes are, the receiver copies them
// from there, and the sender waits until it has.
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "parallel/messages.h"

namespace spillway {
namespace {

// A send, from its exchange() until its receiver has copied the bytes.
struct Post {
  enum class State { kPosted, kTaken, kDone };
  const Send* send;
  State state = State::kPosted;
  Post* next = nullptr;  // from the same rank to the same rank
};

// The posts from one rank to another, first come first served.
struct Channel {
  Post* first = nullptr;
  Post* last = nullptr;
};

// What the ranks share; everything is guarded by `mutex`.
struct Room {
  explicit Room(int ranks)
      : size(ranks), changed(ranks), left(ranks), channels(static_cast<size_t>(ranks) * ranks) {}

  Channel& channel(int sender, int receiver) { return channels[sender * size + receiver]; }
  void fail(const std::string& why) {
    if (failure.empty()) failure = why;
    for (auto& one : changed) one.notify_all();
  }
  void check() const {
    if (!failure.empty()) throw RankFailed(failure);
  }

  const int size;
  std::mutex mutex;
  std::vector<std::condition_variable> changed;  // by the rank that waits
  std::vector<bool> left;                        // ranks whose World is gone
  std::vector<Channel> channels;                 // sender * size + receiver
  std::string failure;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(std::shared_ptr<Room> room, int rank) : room_(std::move(room)), rank_(rank) {}
  ~ThreadWorld() override {
    const std::scoped_lock lock(room_->mutex);
    room_->left[rank_] = true;
    for (auto& one : room_->changed) one.notify_all();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return room_->size; }
  [[nodiscard]] int local_size() const override { return room_->size; }
  [[nodiscard]] int local_rank() const override { return rank_; }
  [[nodiscard]] std::string engine() const override { return "threads"; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_peers(size(), sends, receives);
    std::unique_lock lock(room_->mutex);
    room_->check();
    post(sends);
    try {
      for (const Receive& receive : receives) take(lock, receive);
      wait_for_receivers(lock);
    } catch (...) {
      withdraw(lock);
      throw;
    }
  }

  void abort(const std::string& message) override {
    const std::scoped_lock lock(room_->mutex);
    room_->fail("rank " + std::to_string(rank_) + ": " + message);
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void post(std::span<const Send> sends) {
    posts_.clear();
    for (const Send& send : sends) posts_.push_back({&send});
    for (Post& post : posts_) {  // only now: their addresses stay
      Channel& channel = room_->channel(rank_, post.send->peer);
      (channel.first == nullptr ? channel.first : channel.last->next) = &post;
      channel.last = &post;
      room_->changed[post.send->peer].notify_one();
    }
  }

  // Waits for the next message of the peer and copies it, without the lock.
  void take(Lock& lock, const Receive& receive) {
    Channel& channel = room_->channel(receive.peer, rank_);
    room_->changed[rank_].wait(lock, [&] {
      return channel.first != nullptr || !room_->failure.empty() || room_->left[receive.peer];
    });
    room_->check();
    if (channel.first == nullptr) throw RankFailed(gone(receive.peer));
    Post& post = *channel.first;
    if (post.send->bytes != receive.bytes) {
      room_->fail(size_mismatch(receive.peer, post.send->bytes, rank_, receive.bytes));
      room_->check();
    }
    channel.first = post.next;
    post.state = Post::State::kTaken;
    lock.unlock();
    if (receive.bytes > 0 && receive.data != post.send->data) {
      std::memcpy(receive.data, post.send->data, static_cast<size_t>(receive.bytes));
    }
    lock.lock();
    post.state = Post::State::kDone;
    room_->changed[receive.peer].notify_one();
  }

  void wait_for_receivers(Lock& lock) {
    for (const Post& post : posts_) {
      room_->changed[rank_].wait(lock, [&] {
        return post.state == Post::State::kDone || !room_->failure.empty() ||
               (post.state == Post::State::kPosted && room_->left[post.send->peer]);
      });
      room_->check();
      if (post.state != Post::State::kDone) throw RankFailed(gone(post.send->peer));
    }
  }

  // After a failure: nobody starts to read this rank's memory any more, and nobody still does.
  void withdraw(Lock& lock) {
    for (const Post& post : posts_) {
      if (post.state == Post::State::kPosted) room_->channel(rank_, post.send->peer) = {};
    }
    for (const Post& post : posts_) {
      room_->changed[rank_].wait(lock, [&] { return post.state != Post::State::kTaken; });
    }
  }

  static std::string gone(int rank) {
    return "rank " + std::to_string(rank) + ": has left while others wait for it";
  }

  std::shared_ptr<Room> room_;
  int rank_;
  std::vector<Post> posts_;  // grows to the largest exchange
};

}  // namespace

std::vector<std::unique_ptr<World>> thread_worlds(int size) {
  const auto room = std::make_shared<Room>(size);
  std::vector<std::unique_ptr<World>> worlds;
  for (int rank = 0; rank < size; ++rank) {
    worlds.push_back(std::make_unique<ThreadWorld>(room, rank));
  }
  return worlds;
}

}  // namespace spillway
