// Tensors of a Program: named, typed, contiguous, row-major. There are no views.
//
// Dims: T tokens of a micro-batch (sequences x sequence length), S sequence length, d hidden width,
// H query heads, K key/value heads, V vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class DType : uint8_t { kF32, kBF16, kI32 };

[[nodiscard]] int64_t size_of(DType dtype);                 // bytes of one element
[[nodiscard]] std::string_view name_of(DType dtype);        // "f32", "bf16", "i32"
[[nodiscard]] DType dtype_named(std::string_view name);     // throws ConfigError

using Shape = std::vector<int64_t>;
[[nodiscard]] int64_t element_count(const Shape& shape);

// What a tensor is to the training step. Everything but kValue outlives the block that names it.
enum class TensorKind : uint8_t {
  kValue,     // defined by an op of this Program, or the block's input
  kParam,     // a weight as compute reads it
  kGrad,      // the gradient of a weight, summed over micro-batches
  kState,     // optimizer state: master weight, first and second moment
  kConstant,  // computed once before step 0 (rotary tables)
  kStepIo,    // written by the host before a step or read by it afterwards (tokens, loss, ...)
};

// Where an activation lives between forward and backward. Set by offload/policy, consumed by
// offload/remat and offload/transfer; kUnset outside decoder layers (those values stay on device).
enum class Strategy : uint8_t { kUnset, kDevice, kRemat, kOffload };
[[nodiscard]] std::string_view name_of(Strategy strategy);  // "-", "device", "remat", "offload"

// What a dim of a parameter counts: how parallel/shard divides it over a mesh. kWhole is never divided.
enum class Dim : uint8_t {
  kWhole,
  kHeads,    // query heads (or heads, where keys have their own each), a whole number of them a part
  kKvHeads,  // key/value heads: with more ranks than heads, neighbours share one
  kMlp,      // the inner width of a feed-forward block
  kVocab,    // the vocabulary, padded up to equal parts
  kExperts,
};

// How a parameter starts. Values depend only on (seed, parameter name, element index).
struct Init {
  enum class Kind : uint8_t { kZeros, kOnes, kNormal } kind = Kind::kZeros;
  float stddev = 0;  // kNormal only
};

struct Tensor {
  std::string name;  // unique in its Program; parameters: the Hugging Face name within the block
  DType dtype = DType::kF32;
  Shape shape = {};
  TensorKind kind = TensorKind::kValue;
  Strategy strategy = Strategy::kUnset;
  Init init = {};                // kParam only
  bool micro_batched = false;    // kStepIo only: one buffer per micro-batch (tokens, targets)
  bool global = false;           // kParam, kGrad, kState: named without the block's prefix
  bool per_block = false;        // kStepIo only: one buffer per block (expert load)
  std::vector<Dim> dims = {};    // kParam, kGrad, kState: one a dim; empty: all kWhole
  // kParam, kGrad, kState: mesh axes (parallel/mesh.h) over which parallel/gather divides the
  // elements, whatever they mean; set by parallel/shard.
  uint8_t shard_axes = 0;
  // kValue only: a form of another value that forward and backward each make for themselves (gathered
  // rows, unsummed parts). No policy names it.
  bool transient = false;

  [[nodiscard]] int64_t bytes() const { return element_count(shape) * size_of(dtype); }
};

}  // namespace spillway
