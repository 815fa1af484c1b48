#include "trainer/plan_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/compare.h"
#include "trainer/mesh_config.h"
#include "trainer/simulated.h"

namespace spillway {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

struct Row {
  std::string name;
  StepReport step;
};

void print_rows(const std::vector<Row>& rows, std::ostream& out) {
  constexpr const char* kLine = "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11}  {}\n";
  out << fmt::format(kLine, "strategy", "step s", "TFLOP/s", "HBM GiB", "host GiB", "host GiB",
                     "recomputes", "copies", "collectives", "");
  out << fmt::format(kLine, "", "", "/device", "planned", "per GPU", "a socket", "s", "exposed s",
                     "exposed s", "");
  for (const auto& [name, step] : rows) {
    out << fmt::format(
        "{:<24} {:>9.3f} {:>9.1f} {:>9.2f} {:>9.2f} {:>9.2f} {:>11.3f} {:>11.3f} {:>11.3f}  {}\n",
        name, step.seconds, step.tflops_per_device, gib(step.hbm.peak), gib(step.host.peak),
        gib(step.host_per_socket()), step.parts.recompute, step.parts.copies, step.parts.collectives,
        step.fits() ? "" : "does not fit");
  }
  const StepReport& any = rows.front().step;
  out << fmt::format("\nA GPU has {:.2f} GiB for the plan, beside {:.2f} GiB for context, libraries and "
                     "collective buffers; its share of pinned host memory is {:.2f} GiB.\n",
                     gib(any.hbm.capacity), gib(any.hbm.reserved), gib(any.host.capacity));
}

// Where `row` spends more or less time than the best, largest first; parts below a thousandth of the
// step are not worth a word.
std::string reasons(const StepReport& row, const StepReport& best) {
  struct Part {
    const char* what;
    double more;
  };
  std::vector<Part> parts = {
      {"recomputing", row.parts.recompute - best.parts.recompute},
      {"waiting for copies", row.parts.copies - best.parts.copies},
      {"waiting for collectives", row.parts.collectives - best.parts.collectives},
      {"the model's own ops, which copies and collectives slow down", row.parts.model - best.parts.model},
  };
  std::ranges::sort(parts, [](const Part& a, const Part& b) { return std::abs(a.more) > std::abs(b.more); });
  std::string text;
  for (const Part& part : parts) {
    if (std::abs(part.more) < 1e-3 * best.seconds) continue;
    text += fmt::format("{}{:+.3f} s {}", text.empty() ? "" : ", ", part.more, part.what);
  }
  return text.empty() ? "no part differs by a thousandth of the step" : text;
}

std::string shortage(const SpaceReport& space, const char* what) {
  std::string text = fmt::format("{} {:.2f} GiB of {:.2f}; at its peak", what, gib(space.peak),
                                 gib(space.capacity));
  for (size_t i = 0; i < std::min<size_t>(3, space.at_peak.size()); ++i) {
    text += fmt::format("{} {} {:.2f}", i == 0 ? "" : ",", space.at_peak[i].name,
                        gib(space.at_peak[i].bytes));
  }
  return text;
}

void print_why(const Row& row, const Row& best, std::ostream& out) {
  if (&row == &best) return;
  if (!row.step.fits()) {
    out << fmt::format("  {} does not fit:", row.name);
    if (!row.step.hbm.fits()) out << " " << shortage(row.step.hbm, "HBM");
    if (!row.step.host.fits()) out << " " << shortage(row.step.host, "pinned host memory");
    out << ".\n";
    return;
  }
  out << fmt::format("  {} takes {:.1f} % longer: {}.\n", row.name,
                     100 * (row.step.seconds / best.step.seconds - 1), reasons(row.step, best.step));
}

void print_verdict(const std::vector<Row>& rows, std::ostream& out) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.step.fits() && (best == nullptr || row.step.seconds < best->step.seconds)) best = &row;
  }
  if (best == nullptr) {
    out << "\nNo strategy fits: a smaller micro batch, more ranks on fsdp, or a policy that offloads more.\n";
    for (const Row& row : rows) print_why(row, rows.back(), out);
    return;
  }
  const EngineTime& out_copies = best->step.engines[static_cast<size_t>(Engine::kD2h)];
  const EngineTime& back = best->step.engines[static_cast<size_t>(Engine::kH2d)];
  out << fmt::format("\n{} is the fastest that fits.", best->name);
  if (out_copies.busy > 0) {
    out << fmt::format(" Its copies take {:.3f} s out and {:.3f} s back, of which compute covers {:.1f} %.",
                       out_copies.busy, back.busy,
                       100 * (out_copies.hidden + back.hidden) / (out_copies.busy + back.busy));
  }
  out << "\n";
  for (const Row& row : rows) print_why(row, *best, out);
}

}  // namespace

void plan_strategies(const Config& config, const Hardware& hardware, int ranks, std::ostream& out) {
  out << fmt::format("{} on {} x {}{}: {}. Simulated; nothing here was measured.\n\n", config.name, ranks,
                     hardware.title, hardware.preliminary ? " (preliminary figures)" : "",
                     mesh_of(config, ranks, 0).text());
  std::vector<Row> rows;
  for (const Config& variant : five_strategies(config)) {
    rows.push_back({variant.name, simulate_step(variant, hardware, ranks).report()});
  }
  print_rows(rows, out);
  print_verdict(rows, out);
}

}  // namespace spillway
