// Trains parts of a run on thread-ranks, with checkpoints between them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/meshes/mesh_run.h"
#include "trainer/checkpoint.h"

namespace spillway {

struct NamedMesh {
  const char* name;
  MeshConfig mesh;
  int ranks;
};

inline constexpr NamedMesh kAlone{"Alone", {.data = 1}, 1};

inline Config llama() { return mesh_llama(); }

inline Config deepseek() {
  Config config = tiny_deepseek();
  config.train.micro_batch = 1;
  config.deepseek.num_hidden_layers = 2;
  config.deepseek.num_nextn_predict_layers = 1;
  return config;
}

inline Config in_bf16(Config config) {
  config.precision.compute = DType::kBF16;
  return config;
}

using States = std::map<std::string, std::vector<std::byte>>;

struct Trained {
  std::vector<double> losses, grad_norms;
  States begin, end;  // every tensor, whole, before the first and behind the last step
};

inline void add_states(const Session& session, States& whole) {
  for (const auto& [name, tensor] : state_of(build_model(session.config()))) {
    const std::vector<std::byte> mine = session.read_bytes(name);
    const int64_t element = size_of(tensor.dtype);
    std::vector<std::byte>& all = whole[name];
    all.resize(static_cast<size_t>(element_count(tensor.shape) * element));
    for_each_run(layout_on(tensor, session.mesh()), [&](int64_t from, int64_t to, int64_t count) {
      std::copy_n(mine.begin() + from * element, count * element, all.begin() + to * element);
    });
  }
}

// Steps [first, last). `load`: a checkpoint, or empty. `save_in`: the directory of one behind the last
// step, or empty.
struct Stretch {
  int64_t first, last;
  std::filesystem::path load = {}, save_in = {};
};

inline Trained train(Config config, const NamedMesh& mesh, const Stretch& stretch) {
  config.parallel.mesh = mesh.mesh;
  config.train.global_batch = kGlobalBatch;
  config.device.threads = 1;
  Trained result;
  std::mutex mutex;
  on_thread_ranks(mesh.ranks, [&](World& world) {
    Session session(config, &world);
    if (!stretch.load.empty()) {
      Manifest manifest;
      ASSERT_EQ(damage_of(stretch.load, world, manifest), "");
      ASSERT_EQ(manifest.step, stretch.first);
      ASSERT_EQ(state_difference(manifest, state_of(build_model(config))), "");
      load_checkpoint(stretch.load, manifest, session);
    }
    const auto record = [&](States& states) {
      const std::lock_guard lock(mutex);
      add_states(session, states);
    };
    record(result.begin);
    for (int64_t step = stretch.first; step < stretch.last; ++step) {
      const Batch batch =
          share_of(global_batch(config, step), session.config(), session.mesh());
      const StepResult r = session.train_step(batch, step, 1e-3);
      if (world.rank() != 0) continue;
      result.losses.push_back(r.loss);
      result.grad_norms.push_back(r.grad_norm);
    }
    record(result.end);
    if (!stretch.save_in.empty()) {
      EXPECT_EQ(save_checkpoint(stretch.save_in, {stretch.last, 8 * stretch.last}, session, world),
                "");
    }
  });
  return result;
}

}  // namespace spillway
