// The ranks of a run, and how bytes get from one to another: the only thing that differs between
// ranks that are threads of one process, MPI processes, and a process alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway {

// Bytes for or from one peer. Their order counts: between two ranks the i-th send of one exchange
// meets the i-th receive of the other's.
struct Send {
  int peer;
  const void* data;
  int64_t bytes;
};
struct Receive {
  int peer;
  void* data;
  int64_t bytes;
};

// Another rank has stopped, or does not answer. what() begins with "rank N".
class RankFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class World {
 public:
  virtual ~World() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Ranks on this machine, and this rank's place among them: who shares its cores.
  [[nodiscard]] virtual int local_size() const = 0;
  [[nodiscard]] virtual int local_rank() const = 0;
  // How ranks talk: "one process", "threads", "Open MPI v4.1.4, ...".
  [[nodiscard]] virtual std::string engine() const = 0;

  // All at once; returns when every message has been sent and received. Ranks that take part call it
  // in the same order; one thread of a rank at a time. Messages of 0 bytes and to oneself are allowed.
  // Allocates nothing that grows. Throws RankFailed.
  virtual void exchange(std::span<const Send> sends, std::span<const Receive> receives) = 0;

  // Says why this rank cannot go on, so that the others stop. On MPI it writes `message` to stderr
  // and ends all processes with code 1; on threads it returns and the others' exchange() throws.
  virtual void abort(const std::string& message) = 0;
};

// A process alone.
[[nodiscard]] std::unique_ptr<World> solo_world();

// `size` ranks that are threads of this process; each goes to a thread of its own. They may outlive
// each other.
[[nodiscard]] std::vector<std::unique_ptr<World>> thread_worlds(int size);

// The world that the launcher made: MPI under mpirun or srun, else a process alone. Throws
// ConfigError when there is a launcher but no MPI support beside the program. Once a process.
// `timeout_s`: an exchange that takes longer is given up.
[[nodiscard]] std::unique_ptr<World> join_world(double timeout_s);

// The same text from every rank, in rank order. For starting up, not for steps.
[[nodiscard]] std::vector<std::string> all_texts(World& world, const std::string& mine);
// The sums of `values` over all ranks; the same on every rank.
void sum_over_ranks(World& world, std::span<int64_t> values);

}  // namespace spillway
