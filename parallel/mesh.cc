#include "parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/error.h"

namespace spillway {
namespace {

// Replaces -1 by what is left of `ranks`.
MeshConfig complete(MeshConfig config, int ranks) {
  int64_t product = 1, open = 0;
  for (int64_t size : {config.data, config.fsdp, config.tensor, config.expert}) {
    if (size < -1 || size == 0) {
      throw ConfigError(fmt::format("parallel: an axis of {} ranks; sizes are 1, 2, ..., or -1", size));
    }
    if (size == -1) ++open;
    if (size != -1) product *= size;
  }
  if (open > 1) throw ConfigError("parallel: only one of data, fsdp, tensor, expert may be -1");
  const std::string axes = fmt::format("data {} x fsdp {} x tensor {} x expert {}", config.data,
                                       config.fsdp, config.tensor, config.expert);
  if (open == 0 ? product != ranks : ranks % product != 0) {
    throw ConfigError(fmt::format("parallel: {} does not make {} rank{}; start {}{} ranks, or change "
                                  "the axes",
                                  axes, ranks, ranks == 1 ? "" : "s",
                                  open == 0 ? "" : "a multiple of ", product));
  }
  for (int64_t* size : {&config.data, &config.fsdp, &config.tensor, &config.expert}) {
    if (*size == -1) *size = ranks / product;
  }
  return config;
}

}  // namespace

std::string axes_text(uint8_t axes) {
  static constexpr std::pair<uint8_t, const char*> kNames[] = {
      {axis::kData, "data"},     {axis::kFsdp, "fsdp"},
      {axis::kExpert, "expert"}, {axis::kTensor, "tensor"},
      {axis::kTensorKv, "tensor_kv"}, {axis::kTensorReplica, "tensor_replica"}};
  std::string text;
  for (const auto& [mask, name] : kNames) {
    if ((axes & mask) != mask) continue;
    text += (text.empty() ? "" : "+") + std::string(name);
    axes &= static_cast<uint8_t>(~mask);
  }
  return text.empty() ? "none" : text;
}

Mesh::Mesh(const MeshConfig& config, int ranks, int rank, int64_t kv_heads) : rank_(rank) {
  const MeshConfig whole = complete(config, ranks);
  const int64_t tensor = whole.tensor;
  const int64_t kv = kv_heads == 0 ? tensor : std::min(tensor, kv_heads);
  if (kv_heads != 0 && (tensor % kv != 0 || kv_heads % kv != 0)) {
    throw ConfigError(fmt::format("model.num_key_value_heads ({}) and parallel.tensor ({}) do not "
                                  "divide one another",
                                  kv_heads, tensor));
  }
  const int64_t sizes[kAxes] = {whole.data, whole.fsdp, whole.expert, kv, tensor / kv};
  for (int i = 0; i < kAxes; ++i) sizes_[i] = static_cast<int>(sizes[i]);
}

int Mesh::size(uint8_t axes) const {
  int size = 1;
  for (int i = 0; i < kAxes; ++i) {
    if ((axes >> i & 1) != 0) size *= sizes_[i];
  }
  return size;
}

int Mesh::index(uint8_t axes) const {
  int stride = 1, index = 0, weight = 1;
  for (int i = kAxes - 1; i >= 0; --i) {
    if ((axes >> i & 1) != 0) {
      index += rank_ / stride % sizes_[i] * weight;
      weight *= sizes_[i];
    }
    stride *= sizes_[i];
  }
  return index;
}

Mesh Mesh::at(int rank) const {
  Mesh other = *this;
  other.rank_ = rank;
  return other;
}

// The slowest axis first: each rank so far becomes a run of ranks, in order.
std::vector<int> Mesh::group(uint8_t axes) const {
  std::vector<int> group = {0}, longer;
  int stride = ranks();
  for (int i = 0; i < kAxes; ++i) {
    stride /= sizes_[i];
    const bool along = (axes >> i & 1) != 0;
    const int own = rank_ / stride % sizes_[i];
    longer.clear();
    for (int rank : group) {
      for (int at = along ? 0 : own; at < (along ? sizes_[i] : own + 1); ++at) {
        longer.push_back(rank + at * stride);
      }
    }
    group.swap(longer);
  }
  return group;
}

uint8_t Mesh::populated(uint8_t axes) const {
  uint8_t result = 0;
  for (int i = 0; i < kAxes; ++i) {
    if (sizes_[i] > 1) result |= static_cast<uint8_t>(axes & 1 << i);
  }
  const bool whole_tensor = (axes & axis::kTensor) == axis::kTensor;
  if (whole_tensor && (result & axis::kTensor) != 0) result |= axis::kTensor;
  return result;
}

std::string Mesh::text() const {
  std::string text;
  const std::pair<const char*, int> axes[] = {{"data", size(axis::kData)},
                                              {"fsdp", size(axis::kFsdp)},
                                              {"expert", size(axis::kExpert)},
                                              {"tensor", size(axis::kTensor)}};
  for (const auto& [name, size] : axes) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, size);
  }
  return text.empty() ? "1 rank" : text;
}

}  // namespace spillway
