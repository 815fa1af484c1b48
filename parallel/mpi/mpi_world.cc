// Ranks that are MPI processes. A library of its own that join_world() loads, so that the program
// starts where MPI is not installed; of the project it uses headers only.
#include <malloc.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>

#include "parallel/messages.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int64_t kLargestPiece = int64_t{1} << 30;  // MPI counts in int
constexpr int kTags = 1 << 15;                       // every MPI has as many

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

// How long to stay away between two looks at the requests. MPI moves bytes only while it is called,
// but a rank may have only one core, and its compute needs it. There a yield costs compute nothing;
// where cores are idle it would keep one busy, so after some of them it sleeps, soon for long: waking
// every 20 us takes a third of a core from compute, every 200 us 4%.
class Backoff {
 public:
  void pause(Clock::duration last_look) {
    if (last_look > microseconds(5)) {  // it has moved bytes: there may be more
      looks_ = 0;
      sleep_ = kShortest;
    }
    if (++looks_ <= kYields) {
      std::this_thread::yield();
      return;
    }
    if (sleep_ == kShortest) prctl(PR_SET_TIMERSLACK, 1000);  // of this thread; else 50 us more
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, kLongest);
  }

 private:
  static constexpr int kYields = 100;
  static constexpr microseconds kShortest{20}, kLongest{200};
  int looks_ = 0;
  microseconds sleep_ = kShortest;
};

// A message, or a piece of one.
struct Piece {
  int peer;
  int64_t bytes;
  bool receive;
};

class MpiWorld final : public World {
 public:
  explicit MpiWorld(double timeout_s)
      : timeout_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(std::min(timeout_s, 1e9)))) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm local;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_size(local, &local_size_);
    MPI_Comm_free(&local);
    sent_.resize(size_);
    received_.resize(size_);
  }

  // Leaves MPI, which waits for the others: not when they are not coming.
  ~MpiWorld() override {
    if (!failed_ && std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int local_size() const override { return local_size_; }
  [[nodiscard]] int local_rank() const override { return local_rank_; }

  [[nodiscard]] std::string engine() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole(text, static_cast<size_t>(length));
    return whole.substr(0, whole.find_first_of(",\n")) + ", " + std::to_string(size_) +
           " processes";
  }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_peers(size_, sends, receives);
    pieces_.clear();
    requests_.clear();
    try {
      exchange_with_self(rank_, sends, receives);
      const std::unique_lock lock(mpi_);
      for (const Receive& receive : receives) start(receive);
      for (const Send& send : sends) start(send);
    } catch (...) {
      failed_ = true;
      throw;
    }
    wait();
  }

  void abort(const std::string& message) override {
    failed_ = true;
    std::fflush(stdout);
    std::fflush(stderr);
    const std::string line = rank_text(rank_) + ": " + message + "\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) failed_ = true;  // nothing left to tell
    // MPI takes one thread at a time, and another may be in exchange(). If it stays there, so be it.
    for (int i = 0; i < 1000 && !mpi_.try_lock(); ++i) {
      std::this_thread::sleep_for(microseconds(1000));
    }
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
  }

 private:
  // Starts the pieces of a message. Tags number the pieces between two ranks, so that a message that
  // one of them never sends is missed rather than replaced by the next.
  template <typename Message>
  void start(const Message& message) {
    constexpr bool kReceive = std::is_same_v<Message, Receive>;
    if (message.peer == rank_) return;
    int64_t done = 0;
    do {
      const int64_t bytes = std::min(message.bytes - done, kLargestPiece);
      auto& count = kReceive ? received_[message.peer] : sent_[message.peer];
      const int tag = count++ % kTags, length = static_cast<int>(bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      int code = MPI_SUCCESS;
      if constexpr (kReceive) {
        code = MPI_Irecv(static_cast<char*>(message.data) + done, length, MPI_BYTE, message.peer,
                         tag, MPI_COMM_WORLD, &request);
      } else {
        code = MPI_Isend(static_cast<const char*>(message.data) + done, length, MPI_BYTE,
                         message.peer, tag, MPI_COMM_WORLD, &request);
      }
      if (code != MPI_SUCCESS) throw RankFailed(rank_text(message.peer) + ": " + error_text(code));
      requests_.push_back(request);
      pieces_.push_back({message.peer, bytes, kReceive});
      done += bytes;
    } while (done < message.bytes);
  }

  // Looks at the requests until all are done.
  void wait() {
    statuses_.resize(std::max(statuses_.size(), requests_.size()));
    Backoff backoff;
    for (const auto start = Clock::now();;) {
      const auto before = Clock::now();
      if (look()) return;
      const auto after = Clock::now();
      if (after - start > timeout_) return give_up();
      backoff.pause(after - before);
    }
  }

  bool look() {
    const std::unique_lock lock(mpi_);
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
    if (code == MPI_SUCCESS && done == 0) return false;
    for (size_t i = 0; i < pieces_.size(); ++i) check(pieces_[i], statuses_[i], code);
    return true;
  }

  void check(const Piece& piece, const MPI_Status& status, int code) {
    const bool bad = code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS &&
                     status.MPI_ERROR != MPI_ERR_PENDING;
    if (bad || (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)) {
      failed_ = true;
      throw RankFailed(rank_text(piece.peer) + ": " + error_text(bad ? status.MPI_ERROR : code) +
                       " (a message of " + std::to_string(piece.bytes) + " bytes)");
    }
    int got = 0;
    if (code != MPI_SUCCESS || !piece.receive) return;
    MPI_Get_count(&status, MPI_BYTE, &got);
    if (got == piece.bytes) return;
    failed_ = true;
    throw RankFailed(size_mismatch(piece.peer, got, rank_, piece.bytes));
  }

  // Says who did not answer. Their requests stay open: all that is left to do is to end the process.
  void give_up() {
    std::vector<int> silent;
    const std::unique_lock lock(mpi_);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      int done = 0;
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
      if (done == 0) silent.push_back(pieces_[i].peer);
    }
    if (silent.empty()) return;  // just in time
    failed_ = true;
    std::sort(silent.begin(), silent.end());
    silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
    std::string text = "rank ";
    for (size_t i = 0; i < silent.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(silent[i]);
    }
    const auto seconds = std::chrono::duration<double>(timeout_).count();
    char number[32];
    std::snprintf(number, sizeof(number), "%g", seconds);
    throw RankFailed(text + ": no answer to " + rank_text(rank_) + " for " + number + " s");
  }

  Clock::duration timeout_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::atomic<bool> failed_ = false;
  std::mutex mpi_;                         // held in calls of MPI while ranks exchange
  std::vector<unsigned> sent_, received_;  // pieces, by peer
  // All grow to the largest exchange.
  std::vector<Piece> pieces_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace
}  // namespace spillway

// The one symbol that join_world() looks for. The caller owns the World.
extern "C" __attribute__((visibility("default"))) spillway::World* spillway_mpi_world(
    double timeout_s) {
  // MPI takes large buffers from malloc; by default each would be mapped, its pages touched for the
  // first time, and unmapped, every time: 8 to 15 times the cost of the copy.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
  // Under srun Open MPI cannot see that ranks share cores.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED) {
    throw std::runtime_error("MPI cannot be started for more than one thread");
  }
  return new spillway::MpiWorld(timeout_s);
}
