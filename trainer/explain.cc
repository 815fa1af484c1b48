#include "trainer/explain.h"

#include <fmt/format.h>

#include <map>

#include "program/op_table.h"
#include "program/text.h"

namespace spillway {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string where(const PolicyRow& row) {
  if (!row.needed) return "dropped after its last use in forward: backward does not read it";
  switch (row.strategy) {
    case Strategy::kDevice: return "HBM from forward to backward";
    case Strategy::kOffload: return "HBM in forward, pinned host between, HBM again in backward";
    case Strategy::kRemat: return "dropped in forward, computed again in backward";
    case Strategy::kUnset: return "";
  }
  return "";
}

// Bytes of one micro-batch's activations, all layers.
struct ActivationTotals {
  int64_t device = 0, offload = 0, remat = 0;
};

ActivationTotals activation_totals(const Compiled& compiled) {
  ActivationTotals total;
  for (const PolicyRow& row : compiled.policy) {
    if (!row.needed) continue;
    int64_t& sum = row.strategy == Strategy::kDevice    ? total.device
                   : row.strategy == Strategy::kOffload ? total.offload
                                                        : total.remat;
    sum += row.bytes * row.layers;
  }
  return total;
}

void explain_policy(std::ostream& out, const Compiled& compiled) {
  out << fmt::format("Activations, per layer and micro-batch\n{:<16} {:>6} {:<22} {:>12} {:<8} {}\n",
                     "program", "layers", "activation", "MiB", "strategy", "where it lives");
  for (const PolicyRow& row : compiled.policy) {
    out << fmt::format("{:<16} {:>6} {:<22} {:>12.3f} {:<8} {}\n", row.layer, row.layers,
                       row.activation, mib(row.bytes), name_of(row.strategy), where(row));
  }
  const ActivationTotals total = activation_totals(compiled);
  out << fmt::format("All layers, one micro-batch: kept in HBM {:.3f} GiB, offloaded {:.3f} GiB, "
                     "recomputed instead of kept {:.3f} GiB\n\n",
                     gib(total.device), gib(total.offload), gib(total.remat));
}

void explain_flops(std::ostream& out, const Compiled& compiled, const ExplainOptions& options) {
  int64_t recomputed = 0;
  for (const Instr& instr : compiled.train.schedule.instrs) {
    if (instr.op.recompute) recomputed += instr_flops(compiled.train.schedule, instr);
  }
  const double flops = static_cast<double>(compiled.flops) * options.mesh.ranks();  // of all
  out << fmt::format(
      "Parameters: {}\nModel FLOPs: {:.3f} TFLOP per step, {:.6f} GFLOP per token ({} tokens a "
      "step)\nRecomputed besides: {:.3f} TFLOP per step, not counted as model FLOPs\n\n",
      compiled.parameters, flops * 1e-12, flops * 1e-9 / static_cast<double>(options.tokens_per_step),
      options.tokens_per_step, static_cast<double>(recomputed) * 1e-12);
}

void explain_mesh(std::ostream& out, const Compiled& compiled, const Mesh& mesh) {
  if (mesh.ranks() == 1) return;
  std::map<std::string, std::pair<int, int64_t>> kinds;  // what -> how many, bytes sent
  for (const Instr& instr : compiled.train.schedule.instrs) {
    if (!is_collective(instr.op.kind)) continue;
    const uint8_t axes = mesh.populated(static_cast<uint8_t>(instr.op.attrs.integer(Attr::kAxes)));
    auto& [count, bytes] = kinds[fmt::format("{} over {}", op_info(instr.op.kind).name, axes_text(axes))];
    ++count;
    bytes += sent_bytes(compiled.train.schedule, instr);
  }
  out << fmt::format("{} ranks: {}; everything below is of rank {}\n", mesh.ranks(), mesh.text(),
                     mesh.rank());
  out << "Collectives of a step (bytes that this rank sends; to experts: if routing is balanced)\n";
  for (const auto& [kind, sum] : kinds) {
    out << fmt::format("    {:<40} {:>6} x {:>12.3f} MiB in all\n", kind, sum.first, mib(sum.second));
  }
  out << "\n";
}

void explain_space(std::ostream& out, const Step& step, Space space, int64_t capacity) {
  const SpacePlan& plan = step.plan.of(space);
  out << fmt::format("{}: planned peak {:.3f} GiB ({} bytes) of {:.3f} GiB{}\n",
                     space == Space::kHbm ? "HBM" : "Pinned host", gib(plan.bytes), plan.bytes,
                     gib(capacity), plan.bytes > capacity ? ": DOES NOT FIT" : "");
  if (plan.bytes == 0) return;
  out << fmt::format("  at the peak ({}), {:.3f} GiB live, {:.3f} GiB lost to gaps\n",
                     step.schedule.slots[step.schedule.instrs[plan.peak_instr].slot].text(),
                     gib(plan.live_bytes), gib(plan.bytes - plan.live_bytes));
  for (int m = 0; m < kMemoryClassCount; ++m) {
    if (plan.live_by_class[m] == 0) continue;
    out << fmt::format("    {:<24} {:>12.3f} GiB\n", name_of(static_cast<MemoryClass>(m)),
                       gib(plan.live_by_class[m]));
  }
  out << "  by name\n";
  for (const MemorySum& sum : live_by_name(step.schedule, step.plan, space)) {
    out << fmt::format("    {:<24} {:>12.3f} GiB  {} buffer{}\n", sum.name, gib(sum.bytes),
                       sum.buffers, sum.buffers == 1 ? "" : "s");
  }
}

}  // namespace

void explain(std::ostream& out, const Compiled& compiled, const ExplainOptions& options) {
  explain_policy(out, compiled);
  explain_flops(out, compiled, options);
  explain_mesh(out, compiled, options.mesh);
  out << "Memory plan (" << options.device_name << ")\n";
  explain_space(out, compiled.train, Space::kHbm, options.hbm_bytes);
  explain_space(out, compiled.train, Space::kHost, options.host_bytes);
  const CopyBytes copies = copy_bytes(compiled.train.schedule);
  out << fmt::format("Copies: {:.3f} GiB to the host and {:.3f} GiB back per step\n",
                     gib(copies.d2h), gib(copies.h2d));
  out << fmt::format("Schedule: {} slots, {} instructions\n",
                     compiled.train.schedule.slots.size(), compiled.train.schedule.instrs.size());
  if (options.programs) {
    for (const Program& program : compiled.model.programs) out << "\n" << to_text(program);
  }
  if (options.schedule) out << "\n" << to_text(compiled.train.schedule);
}

}  // namespace spillway
