#include "offload/policy.h"

#include <algorithm>
#include <set>

#include "program/error.h"

namespace spillway {
namespace {

// A named policy keeps a list of names in one place and recomputes the rest. Names of projections
// that a model fuses differently (kv_proj, qkv_proj) stand beside the separate ones.
struct NamedPolicy {
  const char* name;
  Strategy where;
  std::vector<std::string> names;
};

const std::vector<std::string> kQkv = {"query_proj", "key_proj", "value_proj", "kv_proj",
                                       "qkv_proj"};

std::vector<std::string> with_qkv(std::vector<std::string> names) {
  names.insert(names.begin(), kQkv.begin(), kQkv.end());
  return names;
}

const std::vector<NamedPolicy>& named_policies() {
  static const std::vector<NamedPolicy> kPolicies = [] {
    const auto minimal = with_qkv({"out_proj", "mlpwi_0", "mlpwi_1", "mlpwi", "mlpwo"});
    auto with_context = minimal;
    with_context.push_back("context");
    using enum Strategy;
    return std::vector<NamedPolicy>{
        {"full", kDevice, {}},
        {"minimal", kDevice, minimal},
        {"minimal_with_context", kDevice, with_context},
        {"save_dot_except_mlp", kDevice, with_qkv({"out_proj"})},
        {"save_dot_except_mlpwi", kDevice, with_qkv({"out_proj", "mlpwo"})},
        {"save_dot_with_context_except_mlp", kDevice, with_qkv({"context", "out_proj"})},
        {"save_qkv_proj", kDevice, kQkv},
        {"save_out_proj", kDevice, {"out_proj"}},
        {"qkv_proj_offloaded", kOffload, kQkv},
        {"minimal_offloaded", kOffload, minimal},
    };
  }();
  return kPolicies;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Names of all layers, in order of first appearance.
std::vector<std::string> nameable(const std::vector<Program*>& layers) {
  std::vector<std::string> names;
  for (const Program* layer : layers) {
    for (TensorId id : nameable_values(*layer)) {
      const std::string& name = layer->tensors[id].name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

using Assignment = std::map<std::string, Strategy>;

Assignment custom_assignment(const ActivationPolicy& policy, const std::vector<Program*>& layers) {
  const std::vector<std::string> legal = nameable(layers);
  std::set<std::string> inputs;
  for (const Program* layer : layers) inputs.insert(layer->tensors[layer->input].name);
  for (const auto& [name, strategy] : policy.custom) {
    if (std::find(legal.begin(), legal.end(), name) == legal.end()) {
      throw ConfigError("activation.custom." + name + " is not an activation of " +
                        layers[0]->name + did_you_mean(name, legal) +
                        "; activations: " + joined(legal));
    }
    if (strategy == Strategy::kRemat && inputs.contains(name)) {
      throw ConfigError(name + " cannot be remat: it is a block input; choose device or offload");
    }
  }
  return policy.custom;
}

Assignment named_assignment(const ActivationPolicy& policy, const std::vector<Program*>& layers) {
  for (const NamedPolicy& named : named_policies()) {
    if (named.name != policy.policy) continue;
    Assignment assignment;
    const std::vector<std::string> legal = nameable(layers);
    for (const std::string& name : named.names) {
      if (std::find(legal.begin(), legal.end(), name) != legal.end()) {
        assignment[name] = named.where;
      }
    }
    if (assignment.empty() && !named.names.empty()) {
      throw ConfigError("activation.policy: " + policy.policy + " names " + joined(named.names) +
                        ", none of which this model has; activations: " + joined(legal));
    }
    return assignment;
  }
  throw ConfigError("activation.policy: no policy is named " + policy.policy +
                    did_you_mean(policy.policy, policy_names()) +
                    "; policies: " + joined(policy_names()));
}

void assign(Program& layer, const Assignment& assignment, Strategy unnamed) {
  auto strategy_of = [&](const std::string& name, Strategy otherwise) {
    const auto found = assignment.find(name);
    return found == assignment.end() ? otherwise : found->second;
  };
  Tensor& input = layer.tensors[layer.input];
  input.strategy = strategy_of(input.name, Strategy::kDevice);
  for (const Op& op : layer.forward) {
    const Tensor& first = layer.tensors[op.out[0]];
    const Strategy strategy =
        first.transient ? Strategy::kRemat : strategy_of(first.name, unnamed);
    for (TensorId id : op.out) {
      const bool value = layer.tensors[id].kind == TensorKind::kValue;
      if (value && id != layer.output) layer.tensors[id].strategy = strategy;
    }
  }
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names = {"none"};
  for (const NamedPolicy& named : named_policies()) names.emplace_back(named.name);
  names.emplace_back("custom");
  return names;
}

void resolve(const ActivationPolicy& policy, const std::vector<Program*>& layers) {
  if (policy.policy != "custom" && !policy.custom.empty()) {
    throw ConfigError("activation.custom is given, but activation.policy is " + policy.policy +
                      "; set activation.policy: custom");
  }
  Assignment assignment;
  if (policy.policy == "custom") {
    assignment = custom_assignment(policy, layers);
  } else if (policy.policy != "none") {
    assignment = named_assignment(policy, layers);
  }
  const Strategy unnamed = policy.policy == "none" ? Strategy::kDevice : Strategy::kRemat;
  for (Program* layer : layers) assign(*layer, assignment, unnamed);
}

}  // namespace spillway
