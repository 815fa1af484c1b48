// Activation policies: which strategy each activation has. This file decides; offload/remat and
// offload/transfer do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace spillway {

struct ActivationPolicy {
  std::string policy = "none";             // one of policy_names()
  std::map<std::string, Strategy> custom;  // policy "custom": by activation name
};

// none, full, minimal, ..., custom: MaxText's names.
[[nodiscard]] std::vector<std::string> policy_names();

// Sets Tensor::strategy of every value that the forward lists of `layers` define and of their inputs.
// Unnamed values are recomputed; the block's input is kept; auxiliary outputs follow the first output
// of their op. Throws ConfigError for an unknown policy, a name that no layer defines, a named policy
// of which no name matches, or a block input marked remat.
// Afterwards: no value of `layers` is Strategy::kUnset, gradients and block outputs aside.
void resolve(const ActivationPolicy& policy, const std::vector<Program*>& layers);

}  // namespace spillway
