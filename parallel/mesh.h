// The mesh: how the ranks of a run divide a model and its batch.
//
// A rank's number counts data, fsdp, expert, tensor from the slowest to the fastest, so that the
// ranks of a tensor group are neighbours, then those of an expert group: with ranks numbered node by
// node, both stay inside a node as long as they fit.
//
//   axis    divides sequences  divides
//   data    yes                nothing: parameters are replicated
//   fsdp    yes                parameters, gradients, optimizer states
//   expert  yes                experts; everything else like fsdp
//   tensor  no                 heads, feed-forward width, vocabulary; rows of the residual stream
//                              (sequence parallelism); everything else like fsdp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// Axes as a mask: a set of axes names a group, the ranks that differ from one's own only along them.
// Tensor is two: ranks that share a key/value head (kTensorReplica, the fastest) and the others. With
// as many key/value heads as ranks or more, the first is of size 1.
namespace axis {
inline constexpr uint8_t kData = 1, kFsdp = 2, kExpert = 4, kTensorKv = 8, kTensorReplica = 16;
inline constexpr uint8_t kTensor = kTensorKv | kTensorReplica;
inline constexpr uint8_t kBatch = kData | kFsdp | kExpert;  // each rank has sequences of its own
inline constexpr uint8_t kShard = kFsdp | kExpert | kTensor;
inline constexpr uint8_t kAll = kBatch | kTensor;
}  // namespace axis
[[nodiscard]] std::string axes_text(uint8_t axes);  // "fsdp+tensor"; "none"

// What a config asks for; -1 once at most: what is left.
struct MeshConfig {
  int64_t data = -1, fsdp = 1, tensor = 1, expert = 1;
};

class Mesh {
 public:
  Mesh() = default;  // one rank
  // Throws ConfigError when the axes do not multiply to `ranks`, or when `kv_heads` and tensor do not
  // divide one another. kv_heads 0: every head has keys of its own.
  Mesh(const MeshConfig& config, int ranks, int rank, int64_t kv_heads);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return size(axis::kAll); }
  [[nodiscard]] int size(uint8_t axes) const;   // ranks in a group
  [[nodiscard]] int index(uint8_t axes) const;  // this rank's place in it
  [[nodiscard]] std::vector<int> group(uint8_t axes) const;  // its ranks, in order
  [[nodiscard]] Mesh at(int rank) const;        // the same mesh, as another rank sees it
  [[nodiscard]] uint8_t populated(uint8_t axes) const;       // those of more than one rank
  [[nodiscard]] std::string text() const;  // "data 2 x fsdp 4", axes of size 1 left out; "1 rank"

 private:
  static constexpr int kAxes = 5;  // in the order of the mask's bits
  int sizes_[kAxes] = {1, 1, 1, 1, 1};
  int rank_ = 0;
};

}  // namespace spillway
