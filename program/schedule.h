// A Schedule: one rank's instructions for one step, in issue order, each on a stream.
//
// Streams are first-in first-out. What orders two streams is only Instr::waits, which one pass
// derives (program/sync.h). A step of a Schedule allocates nothing: every buffer has a fixed offset
// in one of two arenas (program/plan.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program/op.h"
#include "program/tensor.h"

namespace spillway {

enum class Space : uint8_t { kHbm, kHost };
enum class Stream : uint8_t { kCompute, kD2h, kH2d, kComm };
inline constexpr int kStreamCount = 4;
enum class Phase : uint8_t { kForward, kBackward, kNorm, kUpdate, kEval };

// What a buffer is to the memory report.
enum class MemoryClass : uint8_t {
  kParameter, kGradient, kOptimizer, kStepIo, kActivation, kWorkspace,
  kGathered,  // a whole parameter, for as long as one that is divided over ranks is needed
};
inline constexpr int kMemoryClassCount = 7;

[[nodiscard]] std::string_view name_of(Space space);         // "hbm", "host"
[[nodiscard]] std::string_view name_of(Stream stream);       // "compute", "d2h", "h2d", "comm"
[[nodiscard]] std::string_view name_of(Phase phase);         // "fwd", "bwd", "norm", "update", "eval"
[[nodiscard]] std::string_view name_of(MemoryClass memory);  // "parameters", "gradients", ...

struct Buffer {
  std::string name = {};  // unique: "L3.m0.query_proj", "model.norm.weight", "L3.m0.context@host"
  DType dtype = DType::kF32;
  Shape shape = {};
  Space space = Space::kHbm;
  MemoryClass memory = MemoryClass::kWorkspace;
  bool persistent = false;  // lives across steps; else from its first write to its kFree
  bool offload = false;     // set by lower from the policy, cleared by transfer
  std::string activation = {};  // the policy's name for it ("query_proj"); "" for anything else
  uint8_t shard_axes = 0;  // of a parameter, its gradient and state: see Tensor; cleared by gather

  [[nodiscard]] int64_t bytes() const { return element_count(shape) * size_of(dtype); }
};

// A stretch of the step: one phase of one block for one micro-batch.
struct Slot {
  std::string block;  // "embed", "L0", ..., "head"
  Phase phase = Phase::kForward;
  int micro_batch = 0;
  [[nodiscard]] std::string text() const;  // "L3.fwd.m0"
  bool operator==(const Slot&) const = default;
};

struct Instr {
  int slot = 0;  // index into Schedule::slots; never decreases along `instrs` on one stream
  Stream stream = Stream::kCompute;
  Op op;                   // ids index Schedule::buffers
  std::vector<int> waits;  // indices of earlier instructions on other streams
};

struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Slot> slots;
  std::vector<Instr> instrs;

  [[nodiscard]] TensorId find(const std::string& buffer) const;  // kNoTensor when absent
};

// Model FLOPs of one run: what remat repeats is not counted.
[[nodiscard]] int64_t model_flops(const Schedule& schedule);
// FLOPs and HBM bytes of one instruction, recomputation included.
[[nodiscard]] int64_t instr_flops(const Schedule& schedule, const Instr& instr);
[[nodiscard]] int64_t instr_bytes(const Schedule& schedule, const Instr& instr);
// Bytes that one step copies in a direction.
struct CopyBytes {
  int64_t d2h = 0, h2d = 0;
};
[[nodiscard]] CopyBytes copy_bytes(const Schedule& schedule);
[[nodiscard]] bool is_copy_to_host(const Schedule& schedule, const Instr& instr);
[[nodiscard]] bool is_copy_to_device(const Schedule& schedule, const Instr& instr);
// An op that ranks do together: it goes on the comm stream once latency is hidden.
[[nodiscard]] bool is_collective(OpKind kind);
// Bytes that this rank sends to others in one step.
[[nodiscard]] int64_t sent_bytes(const Schedule& schedule);
[[nodiscard]] int64_t sent_bytes(const Schedule& schedule, const Instr& instr);

// Buffers an instruction reads or writes: inputs and outputs, without duplicates. kFree counts as a
// write: whatever still reads the buffer comes before it.
struct Access {
  TensorId buffer;
  bool write;
};
[[nodiscard]] std::vector<Access> accesses(const Instr& instr);

}  // namespace spillway
