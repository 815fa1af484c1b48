// Trains a config on ranks that are threads, and puts together what they hold.
#pragma once

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/layout.h"
#include "parallel/world.h"
#include "tests/strategies/trajectory.h"
#include "trainer/mesh_config.h"

namespace spillway {

// The same on every mesh: 8 sequences a step, of which this rank's share is cut out.
inline constexpr int64_t kGlobalBatch = 8;

inline Batch global_batch(const Config& config, int64_t step) {
  Config whole = config;
  whole.train.micro_batch = kGlobalBatch;
  whole.train.accumulation = 1;
  return random_batch(whole, step);
}

inline Batch share_of(const Batch& whole, const Config& config, const Mesh& mesh) {
  const int64_t run = config.train.micro_batch * config.train.seq_len;  // tokens of a micro-batch
  const int64_t ranks = mesh.size(axis::kBatch), rank = mesh.index(axis::kBatch);
  Batch mine;
  for (int64_t m = 0; m < config.train.accumulation; ++m) {
    const int64_t begin = (m * ranks + rank) * run;
    mine.tokens.insert(mine.tokens.end(), whole.tokens.begin() + begin,
                       whole.tokens.begin() + begin + run);
    mine.targets.insert(mine.targets.end(), whole.targets.begin() + begin,
                        whole.targets.begin() + begin + run);
  }
  for (int32_t target : mine.targets) mine.valid_targets += target >= 0 ? 1 : 0;
  return mine;
}

// Ranks that fail throw here: the message of the first one that failed by itself.
template <typename Body>
void on_thread_ranks(int ranks, const Body& body) {
  std::vector<std::unique_ptr<World>> worlds = thread_worlds(ranks);
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(worlds.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*worlds[rank]);
      } catch (const std::exception& error) {
        errors[rank] = std::current_exception();
        worlds[rank]->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr other;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const RankFailed&) {
      other = error;
    } catch (...) {
      throw;
    }
  }
  if (other) std::rethrow_exception(other);
}

// A tiny Llama that takes a sequence at a time.
inline Config mesh_llama() {
  Config config = tiny_llama(2);
  config.train.micro_batch = 1;
  return config;
}

struct MeshRun {
  std::vector<double> losses, grad_norms;
  std::map<std::string, std::vector<float>> parameters, gradients;  // whole, after and at step 0
  std::vector<int64_t> optimizer_bytes;  // by rank
  std::vector<bool> as_planned;          // by rank: the measured peak is the planned one
  std::vector<double> dropped;           // choices, by step

  [[nodiscard]] bool same_bits(const MeshRun& other) const {
    const Trajectory mine{losses, grad_norms, parameters};
    const Trajectory theirs{other.losses, other.grad_norms, other.parameters};
    const Trajectory grad{{}, {}, gradients}, other_grad{{}, {}, other.gradients};
    return mine.same_bits(theirs) && grad.same_bits(other_grad);
  }
};

// This rank's shard of a parameter into its place of the whole.
inline void place(const Layout& layout, const std::vector<float>& shard, std::vector<float>& whole) {
  whole.resize(element_count(layout.whole_shape()));
  for_each_run(layout, [&](int64_t from, int64_t to, int64_t count) {
    std::copy(shard.begin() + from, shard.begin() + from + count, whole.begin() + to);
  });
}

// Gradients of step 0, this rank's shards; leaves parameters as they are.
inline std::map<std::string, std::vector<float>> watch_gradients(Session& session,
                                                                 const Batch& batch) {
  std::map<std::string, std::vector<float>> gradients;  // the last that was written
  session.watch(batch, [&](const std::string& name, std::vector<float> values) {
    if (name.ends_with(".grad")) gradients[name] = std::move(values);
  });
  return gradients;
}

inline void record_memory(const Session& session, int rank, MeshRun& run) {
  const Compiled& c = session.compiled();
  for (const Buffer& buffer : c.train.schedule.buffers) {
    if (buffer.memory == MemoryClass::kOptimizer) run.optimizer_bytes[rank] += buffer.bytes();
  }
  const MemoryUse use = session.device().memory_use();
  run.as_planned[rank] =
      use.hbm_high_water == std::max(c.train.plan.hbm.bytes, c.evaluate.plan.hbm.bytes) &&
      use.host_high_water == c.train.plan.host.bytes;
}

inline MeshRun run_on_mesh(Config config, const MeshConfig& mesh_config, int ranks, int64_t steps,
                           bool with_gradients = true) {
  config.parallel.mesh = mesh_config;
  config.train.global_batch = kGlobalBatch;
  config.device.threads = 1;
  MeshRun run;
  run.optimizer_bytes.resize(ranks);
  run.as_planned.resize(ranks);
  std::mutex mutex;
  on_thread_ranks(ranks, [&](World& world) {
    Session session(config, &world);
    auto batch = [&](int64_t step) {
      return share_of(global_batch(config, step), session.config(), session.mesh());
    };
    std::map<std::string, std::vector<float>> gradients;
    if (with_gradients) gradients = watch_gradients(session, batch(0));
    for (int64_t step = 0; step < steps; ++step) {
      const StepResult r = session.train_step(batch(step), step, 1e-3);
      if (world.rank() != 0) continue;
      run.losses.push_back(r.loss);
      run.grad_norms.push_back(r.grad_norm);
    }
    const std::lock_guard lock(mutex);
    for (const auto& [name, layout] : session.compiled().layouts) {
      place(layout, session.read(name), run.parameters[name]);
      if (with_gradients) place(layout, gradients.at(name + ".grad"), run.gradients[name]);
    }
    record_memory(session, world.rank(), run);
  });
  return run;
}

}  // namespace spillway
