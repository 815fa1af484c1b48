#include "program/op.h"

#include <array>
#include <string>

#include "program/error.h"

namespace spillway {

std::string_view name_of(Attr attr) {
  static constexpr std::array<std::string_view, kAttrCount> kNames = {
      "eps",   "heads", "kv_heads", "head_dim", "v_head_dim", "rope_dim",     "interleaved", "seq",
      "scale", "begin", "end",      "beta1",    "beta2",      "weight_decay", "max_norm",    "top_k",
      "groups", "topk_groups", "group_top", "sigmoid", "normalize", "balanced", "balance_loss",
      "z_loss", "experts", "capacity", "rate", "axes", "parts", "part", "rows", "drop", "fp8"};
  return kNames[static_cast<int>(attr)];
}

bool Attrs::has(Attr attr) const {
  for (const auto& [key, value] : list_) {
    if (key == attr) return true;
  }
  return false;
}

double Attrs::real(Attr attr) const {
  for (const auto& [key, value] : list_) {
    if (key == attr) return value;
  }
  throw VerifyError("attribute " + std::string(name_of(attr)) + " is missing");
}

int64_t Attrs::integer(Attr attr) const { return static_cast<int64_t>(real(attr)); }

void Attrs::set(Attr attr, double value) {
  for (auto& [key, old] : list_) {
    if (key == attr) {
      old = value;
      return;
    }
  }
  list_.emplace_back(attr, value);
}

}  // namespace spillway
