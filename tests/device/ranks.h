// Ranks that are threads, for tests of collectives.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu/element.h"
#include "parallel/group.h"

namespace spillway {

// Calls f on a thread a rank. Returns what each rank threw, "" for nothing.
inline std::vector<std::string> on_ranks(const MeshConfig& mesh, int ranks,
                                         const std::function<void(const Communicator&)>& f) {
  const auto worlds = thread_worlds(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      World& world = *worlds[static_cast<size_t>(rank)];
      try {
        f({.world = &world, .mesh = Mesh(mesh, ranks, rank, 0)});
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
        world.abort(error.what());  // a bug in one rank must not hang the test
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> on_ranks(int ranks,
                                         const std::function<void(const Communicator&)>& f) {
  return on_ranks({.data = ranks}, ranks, f);
}

// f32 float, bf16 uint16_t, i32 int32_t.
template <class T>
constexpr DType dtype_of() {
  return sizeof(T) == 2 ? DType::kBF16 : std::is_same_v<T, float> ? DType::kF32 : DType::kI32;
}

template <class T>
cpu::TensorRef refer(std::vector<T>& values, Shape shape) {
  return {.data = values.data(), .dtype = dtype_of<T>(), .shape = std::move(shape)};
}
template <class T>
cpu::TensorRef refer(std::vector<T>& values) {
  return refer(values, {static_cast<int64_t>(values.size())});
}

// Binds and runs an op once.
inline void run_op(const Communicator& communicator, OpKind kind, const Attrs& attrs,
                   std::vector<cpu::TensorRef> in, std::vector<cpu::TensorRef> out,
                   bool accumulate = false) {
  cpu::Scratch scratch;
  const cpu::Kernel kernel = cpu::bind({.kind = kind, .in = std::move(in), .out = std::move(out),
                                        .accumulate = {accumulate}, .attrs = attrs,
                                        .scratch = &scratch, .communicator = &communicator});
  scratch.allocate();
  kernel();
}

}  // namespace spillway
