#include "trainer/plan_command.h"

#include <fmt/format.h>

#include "trainer/compare.h"
#include "trainer/mesh_config.h"
#include "trainer/simulated.h"

namespace spillway {
namespace {

constexpr double kGiB = int64_t{1} << 30;

struct Row {
  std::string name;
  bool fits = false;
  double seconds = 0, tflops = 0, hbm_gib = 0, host_gib = 0;
  double recompute_seconds = 0;  // compute that remat repeats
  double copies_exposed = 0, collectives_exposed = 0;
};

Row row_of(const std::string& name, const SimulatedStep& step) {
  Row row{.name = name,
          .fits = step.fits(),
          .seconds = step.seconds,
          .tflops = step.tflops_per_device(),
          .hbm_gib = static_cast<double>(step.compiled.train.plan.hbm.bytes) / kGiB,
          .host_gib = static_cast<double>(step.compiled.train.plan.host.bytes) / kGiB,
          .copies_exposed = step.stats.exposed_seconds,
          .collectives_exposed = step.stats.exposed_collective_seconds};
  const std::vector<Instr>& instrs = step.compiled.train.schedule.instrs;
  for (size_t i = 0; i < instrs.size(); ++i) {
    if (!instrs[i].op.recompute || instrs[i].stream != Stream::kCompute) continue;
    row.recompute_seconds +=
        static_cast<double>(step.run.timings[i].end_ns - step.run.timings[i].begin_ns) * 1e-9;
  }
  return row;
}

void print_rows(const std::vector<Row>& rows, std::ostream& out) {
  out << fmt::format("{:<24} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11}  {}\n", "strategy", "step s",
                     "TFLOP/s", "HBM GiB", "host GiB", "recomputes", "copies", "collectives", "");
  out << fmt::format("{:<24} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11}\n", "", "", "/device",
                     "planned", "planned", "s", "exposed s", "exposed s");
  for (const Row& row : rows) {
    out << fmt::format("{:<24} {:>9.3f} {:>9.1f} {:>9.2f} {:>9.2f} {:>11.3f} {:>11.3f} {:>11.3f}  {}\n",
                       row.name, row.seconds, row.tflops, row.hbm_gib, row.host_gib,
                       row.recompute_seconds, row.copies_exposed, row.collectives_exposed,
                       row.fits ? "" : "does not fit");
  }
}

void print_verdict(const std::vector<Row>& rows, std::ostream& out) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.fits && (best == nullptr || row.seconds < best->seconds)) best = &row;
  }
  if (best == nullptr) {
    out << "\nNo strategy fits: a smaller micro batch, more ranks on fsdp, or a policy that offloads more.\n";
    return;
  }
  out << fmt::format("\n{} is the fastest that fits.", best->name);
  for (const Row& row : rows) {
    if (&row == best) continue;
    if (!row.fits) {
      out << fmt::format(" {} does not fit.", row.name);
    } else {
      out << fmt::format(" {} takes {:.1f} % longer.", row.name,
                         100 * (row.seconds / best->seconds - 1));
    }
  }
  out << "\n";
}

}  // namespace

void plan_strategies(const Config& config, const Hardware& hardware, int ranks, std::ostream& out) {
  out << fmt::format("{} on {} x {}{}: {}. Simulated; nothing here was measured.\n\n", config.name, ranks,
                     hardware.title, hardware.preliminary ? " (preliminary figures)" : "",
                     mesh_of(config, ranks, 0).text());
  std::vector<Row> rows;
  for (const Config& variant : five_strategies(config)) {
    rows.push_back(row_of(variant.name, simulate_step(variant, hardware, ranks)));
  }
  print_rows(rows, out);
  print_verdict(rows, out);
}

}  // namespace spillway
