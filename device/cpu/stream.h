// A stream: a thread that runs commands one after another, and a timeline that others wait for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace spillway::cpu {

// A number that only grows. What a stream has recorded, another stream waits for.
class Timeline {
 public:
  void advance(int64_t to);
  void wait(int64_t until) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable advanced_;
  int64_t value_ = 0;  // guarded by mutex_
};

// Runs instructions on a stream's thread. Never throws: errors are kept where the host will look.
class Runner {
 public:
  virtual void run_instruction(int instr, int64_t waited_ns) noexcept = 0;

 protected:
  ~Runner() = default;
};

class StreamThread {
 public:
  StreamThread();
  ~StreamThread();  // runs what is queued, then joins

  // Room for this many commands, so that a run never blocks its host. While idle only.
  void reserve(int64_t commands);

  // Enqueue and return; they block only when the ring is full.
  void run(Runner& runner, int instr);
  void record(int64_t value);  // advances timeline() once everything before is done
  void wait(const Timeline& other, int64_t until);

  // Blocks until everything enqueued is done.
  void drain();
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

 private:
  struct Command {
    enum class Kind : uint8_t { kRun, kRecord, kWait, kStop } kind = Kind::kStop;
    int instr = 0;
    int64_t value = 0;
    Runner* runner = nullptr;
    const Timeline* other = nullptr;
  };

  void push(const Command& command);
  void loop();
  [[nodiscard]] Command next();
  void finish();

  Timeline timeline_;
  std::mutex mutex_;
  std::condition_variable pushed_, popped_;
  std::vector<Command> ring_;  // guarded by mutex_, as are the two counts
  int64_t begun_ = 0, ended_ = 0, queued_ = 0;  // commands ever taken, finished, pushed
  std::thread thread_;                          // last: it uses the others
};

}  // namespace spillway::cpu
