#include "trainer/report/layer_window.h"

#include <algorithm>
#include <cctype>

#include "program/op_table.h"

namespace spillway {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// -1: no layer.
int layer_of(std::string_view block) {
  return block.starts_with('L') && all_digits(block.substr(1))
             ? std::stoi(std::string(block.substr(1)))
             : -1;
}

int middle_slot(const Schedule& schedule, Phase phase) {
  int layers = 0;
  for (const Slot& slot : schedule.slots) layers = std::max(layers, layer_of(slot.block) + 1);
  const Slot wanted{.block = "L" + std::to_string(layers / 2), .phase = phase, .micro_batch = 0};
  const auto found = std::ranges::find(schedule.slots, wanted);
  return found == schedule.slots.end() ? -1 : static_cast<int>(found - schedule.slots.begin());
}

std::string_view without_first(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}

// Whether a part of a buffer's name says only for which slot it is: "L30", "embed", "fwd", "m0".
bool names_slot(std::string_view part, const std::string& block) {
  if (part == block || layer_of(part) >= 0) return true;
  if (part.starts_with('m') && all_digits(part.substr(1))) return true;
  using enum Phase;
  return std::ranges::any_of(
      std::initializer_list<Phase>{kForward, kBackward, kNorm, kUpdate, kEval},
      [&](Phase phase) { return part == name_of(phase); });
}

// "L30.m0.query_proj" and "model.layers.30.self_attn.q_proj.weight" without what says which block.
std::string_view short_name(std::string_view name, const std::string& block) {
  while (name.find('.') != std::string_view::npos &&
         names_slot(name.substr(0, name.find('.')), block)) {
    name = without_first(name);
  }
  if (!name.starts_with("model.")) return name;
  for (std::string_view rest = name; !rest.empty(); rest = without_first(rest)) {
    if (all_digits(rest.substr(0, rest.find('.')))) return without_first(rest);
  }
  return name;
}

// The op and what it makes; for `free`, what it frees.
std::string span_name(const Schedule& schedule, const Instr& instr,
                      const std::string& window_block) {
  const std::vector<TensorId>& named = instr.op.out.empty() ? instr.op.in : instr.op.out;
  const std::string& block = schedule.slots[instr.slot].block;
  std::string name(op_info(instr.op.kind).name);
  if (!named.empty()) {
    name += " ";
    name += short_name(schedule.buffers[named[0]].name, block);
  }
  return block == window_block ? name : name + " (" + block + ")";
}

}  // namespace

Window layer_window(const Schedule& schedule, std::span<const InstrTiming> timings, Phase phase) {
  const int slot = middle_slot(schedule, phase);
  if (slot < 0) return {};
  int64_t begin = INT64_MAX, end = 0;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (instr.slot != slot || instr.stream != Stream::kCompute) continue;
    begin = std::min(begin, timings[i].begin_ns);
    end = std::max(end, timings[i].end_ns);
  }
  if (begin >= end) return {};
  Window window{.slot = schedule.slots[slot].text(),
                .begin = static_cast<double>(begin) * 1e-9,
                .end = static_cast<double>(end) * 1e-9,
                .spans = {}};
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const InstrTiming& t = timings[i];
    if (t.end_ns <= t.begin_ns || t.end_ns <= begin || t.begin_ns >= end) continue;
    const Instr& instr = schedule.instrs[i];
    window.spans.push_back({.engine = engine_of(schedule, instr),
                            .begin = static_cast<double>(t.begin_ns) * 1e-9,
                            .end = static_cast<double>(t.end_ns) * 1e-9,
                            .name = span_name(schedule, instr, schedule.slots[slot].block)});
  }
  return window;
}

}  // namespace spillway
