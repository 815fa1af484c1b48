#include "trainer/component.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "program/op_table.h"

namespace spillway {
namespace {

using enum OpKind;

int64_t elements(const Buffer& buffer) { return element_count(buffer.shape); }

// Choice c of R goes to expert c % E. Experts' rows begin where those of the experts before end.
struct BalancedRouting {
  int64_t choices, experts;

  [[nodiscard]] int64_t offset(int64_t expert) const {
    return expert * (choices / experts) + std::min(expert, choices % experts);
  }
  [[nodiscard]] int64_t place(int64_t choice) const {
    return offset(choice % experts) + choice / experts;
  }
  [[nodiscard]] std::vector<int32_t> offsets() const {
    std::vector<int32_t> result;
    for (int64_t e = 0; e <= experts; ++e) result.push_back(static_cast<int32_t>(offset(e)));
    return result;
  }
  [[nodiscard]] std::vector<int32_t> places() const {
    std::vector<int32_t> result;
    for (int64_t c = 0; c < choices; ++c) result.push_back(static_cast<int32_t>(place(c)));
    return result;
  }
  [[nodiscard]] std::vector<int32_t> order() const {
    std::vector<int32_t> result(static_cast<size_t>(choices));
    for (int64_t c = 0; c < choices; ++c) result[static_cast<size_t>(place(c))] = static_cast<int32_t>(c);
    return result;
  }
};

// count values below `limit`, spread over all of them.
std::vector<int32_t> spread(int64_t count, int64_t limit) {
  std::vector<int32_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<int32_t>(i * 7919 % limit));
  return result;
}

std::vector<int32_t> round_robin(int64_t count, int64_t limit) {
  std::vector<int32_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<int32_t>(i % limit));
  return result;
}

// Every rank sends as many rows to every expert.
std::vector<int32_t> exchange_offsets(const Component& c, size_t input) {
  const int64_t ranks = c.in(input).shape[0], experts = c.in(input).shape[1] - 1;
  const int64_t rows = c.op().attrs.has(Attr::kRows) ? c.op().attrs.integer(Attr::kRows)
                                                     : c.in(0).shape[0];
  std::vector<int32_t> result;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int32_t> offsets = BalancedRouting{rows / experts * experts, experts}.offsets();
    result.insert(result.end(), offsets.begin(), offsets.end());
  }
  return result;
}

// What combine and dispatch's gradient read does not say how many experts there are.
constexpr int64_t kSomeExperts = 8;

}  // namespace

std::vector<int32_t> usual_integers(const Component& c, size_t input) {
  const Buffer& buffer = c.in(input);
  const int64_t count = elements(buffer);
  const Attrs& attrs = c.op().attrs;
  switch (c.op().kind) {
    case kEmbedding: return spread(count, c.in(1).shape[0]);
    case kEmbeddingBwd: return spread(count, c.out(0).shape[0]);
    case kCrossEntropy:
    case kCrossEntropyBwd:
    case kVocabStats: return spread(count, c.in(0).shape[1]);
    case kRouteBwd:
    case kRouterLoss:
    case kRouterLossBwd: return round_robin(count, c.in(0).shape[1]);
    case kDispatchPlan: return round_robin(count, attrs.integer(Attr::kExperts));
    case kCountExperts: {
      const BalancedRouting routing{elements(c.in(0)), c.in(1).shape[0] - 1};
      return input == 0 ? round_robin(count, routing.experts) : routing.offsets();
    }
    case kDispatch: {
      const BalancedRouting routing{elements(c.in(1)), c.in(2).shape[0] - 1};
      return input == 1 ? routing.order() : input == 2 ? routing.offsets() : routing.places();
    }
    case kGroupedLinear:
    case kGroupedLinearDgrad:
    case kGroupedLinearWgrad: {
      const int64_t rows = attrs.has(Attr::kRows) ? attrs.integer(Attr::kRows) : c.in(0).shape[0];
      return BalancedRouting{rows, buffer.shape[0] - 1}.offsets();
    }
    case kDispatchBwd:
    case kCombine:
    case kCombineBwd: return BalancedRouting{count, kSomeExperts}.places();
    case kExpertOffsets:
    case kCountOverflow:
    case kExchangeRows:
    case kReturnRows: return exchange_offsets(c, input);
    default: return std::vector<int32_t>(static_cast<size_t>(count), 1);
  }
}

std::string Component::key() const {
  std::string text(op_info(op().kind).name);
  const auto add = [&](TensorId id) {
    text += fmt::format(" {}[{}]", name_of(buffer(id).dtype), fmt::join(buffer(id).shape, ","));
  };
  for (TensorId id : op().in) add(id);
  text += " ->";
  for (size_t i = 0; i < op().out.size(); ++i) {
    add(op().out[i]);
    if (op().accumulate[i]) text += "+";
  }
  for (const auto& [attr, value] : op().attrs.list()) {
    text += fmt::format(" {}={}", name_of(attr), value);
  }
  return text;
}

Component component_of(const Schedule& schedule, const Instr& instr) {
  Component result;
  result.schedule.slots = {{.block = "component"}};
  Instr alone{.slot = 0, .stream = instr.stream, .op = instr.op, .waits = {}};
  std::map<TensorId, TensorId> ids;
  const auto take = [&](TensorId& id) {
    const auto [found, added] = ids.emplace(id, static_cast<TensorId>(ids.size()));
    if (added) {
      const Buffer& buffer = schedule.buffers[static_cast<size_t>(id)];
      result.schedule.buffers.push_back({.name = buffer.name, .dtype = buffer.dtype,
                                         .shape = buffer.shape, .space = buffer.space,
                                         .persistent = true});
    }
    id = found->second;
  };
  for (TensorId& id : alone.op.in) take(id);
  for (TensorId& id : alone.op.out) take(id);
  result.schedule.instrs.push_back(std::move(alone));
  return result;
}

std::vector<Component> components_of(const Schedule& schedule) {
  std::vector<Component> result;
  std::set<std::string> keys;
  for (const Instr& instr : schedule.instrs) {
    if (instr.op.kind == kFree || instr.op.kind == kCopy || is_collective(instr.op.kind)) continue;
    Component component = component_of(schedule, instr);
    if (keys.insert(component.key()).second) result.push_back(std::move(component));
  }
  return result;
}

Component product(OpKind kind, DType dtype, int64_t m, int64_t n, int64_t k) {
  const bool wgrad = kind == kLinearWgrad;  // d.weight[m,n] = d.y[k,m], x[k,n]
  Schedule schedule{.buffers = {}, .slots = {{.block = "component"}}, .instrs = {}};
  const auto add = [&](const char* name, Shape shape) {
    schedule.buffers.push_back(
        {.name = name, .dtype = dtype, .shape = std::move(shape), .persistent = true});
  };
  add("a", wgrad ? Shape{k, m} : Shape{m, k});
  add("b", wgrad ? Shape{k, n} : Shape{n, k});
  add("y", {m, n});
  schedule.instrs.push_back(
      {.slot = 0, .op = {.kind = kind, .in = {0, 1}, .out = {2}, .accumulate = {false}}});
  return {.schedule = std::move(schedule)};
}

Schedule repeated(const Component& component, int count, int64_t bytes) {
  Schedule result{.buffers = {}, .slots = component.schedule.slots, .instrs = {}};
  int64_t each = 0;
  for (const Buffer& buffer : component.schedule.buffers) each += buffer.bytes();
  const int64_t sets = std::clamp<int64_t>(bytes / std::max<int64_t>(each, 1), 1, count);
  const auto width = static_cast<TensorId>(component.schedule.buffers.size());
  for (int64_t set = 0; set < sets; ++set) {
    for (Buffer buffer : component.schedule.buffers) {
      buffer.name += fmt::format("#{}", set);
      result.buffers.push_back(std::move(buffer));
    }
  }
  for (int i = 0; i < count; ++i) {
    Instr instr = component.instr();
    const auto first = static_cast<TensorId>(i % sets) * width;
    for (TensorId& id : instr.op.in) id += first;
    for (TensorId& id : instr.op.out) id += first;
    result.instrs.push_back(std::move(instr));
  }
  return result;
}

}  // namespace spillway
