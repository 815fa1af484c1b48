#include "trainer/bench_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "program/error.h"
#include "trainer/config.h"
#include "trainer/hardware_file.h"
#include "trainer/measured.h"
#include "trainer/mesh_config.h"
#include "trainer/report/bench_document.h"
#include "trainer/simulated.h"
#include "trainer/write_report.h"

namespace spillway {
namespace {

struct PreparedRow {
  BenchRow row;
  Config config;
  Hardware hardware;
  std::string mesh;
};

void check_ids(const BenchTable& table, const std::vector<std::string>& wanted) {
  std::vector<std::string> ids;
  for (const BenchRow& row : table.rows) ids.push_back(row.id);
  for (const std::string& id : wanted) {
    if (std::ranges::count(ids, id) > 0) continue;
    throw ConfigError(fmt::format("bench {} has no row {}{}; rows: {}", table.name, id,
                                  did_you_mean(id, ids), fmt::join(ids, ", ")));
  }
}

PreparedRow prepare(const BenchTable& table, const BenchRow& row,
                    const std::vector<std::string>& overrides) {
  try {
    std::vector<std::string> all = row.overrides;
    all.insert(all.end(), overrides.begin(), overrides.end());
    Config config = load_config(row.config, all, table.path.string());
    config.name = row.id;
    const Mesh mesh = mesh_of(config, row.ranks, 0);
    (void)on_mesh(config, mesh);
    return {row, std::move(config), hardware_named(row.hardware, {}, table.path.parent_path()),
            mesh.text()};
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: row {}: {}", table.path.string(), row.id, error.what()));
  }
}

BenchResult run_row(const PreparedRow& prepared, int64_t measure_steps, World& world) {
  BenchResult result{.row = prepared.row, .mesh = prepared.mesh};
  if (measure_steps > 0 && prepared.row.ranks != world.size()) {
    result.error = fmt::format("needs {} ranks; this run has {}", prepared.row.ranks, world.size());
    return result;
  }
  try {
    result.step =
        measure_steps > 0
            ? measure_step(prepared.config, measure_steps, world)
            : simulate_step(prepared.config, prepared.hardware, prepared.row.ranks).report();
  } catch (const ConfigError& error) {
    result.error = error.what();
  } catch (const OutOfMemory& error) {
    result.error = error.what();
  }
  return result;
}

std::string ratio_text(std::optional<double> ratio) {
  return ratio ? fmt::format("{:+.1f} %", 100 * (*ratio - 1)) : "-";
}

void print_row(const BenchResult& result, std::ostream& out) {
  if (!result.step) {
    out << fmt::format("{:<32} {}\n", result.row.id, result.error) << std::flush;
    return;
  }
  const StepReport& step = *result.step;
  constexpr double kGiB = int64_t{1} << 30;
  out << fmt::format("{:<32} {:>9.3f} {:>9.1f} {:>9} {:>9.1f} {:>9} {:>9.1f}  {}\n", result.row.id,
                     step.seconds, step.tflops_per_device, ratio_text(rate_ratio(result)),
                     static_cast<double>(step.hbm.peak) / kGiB, ratio_text(memory_ratio(result)),
                     static_cast<double>(step.host.peak) / kGiB, step.fits() ? "" : "does not fit")
      << std::flush;
}

void print_mean(const char* what, const std::optional<MeanError>& mean, std::ostream& out) {
  if (!mean) return;
  out << fmt::format("Mean absolute error of the {} over {} rows: {:.1f} %\n", what, mean->rows,
                     100 * mean->value);
}

std::string device_of(const PreparedRow& row, int64_t measure_steps, const World& world) {
  if (measure_steps == 0) return "simulated";
  return fmt::format("device {}, {} rank{}, {}", row.config.device.kind, world.size(),
                     world.size() == 1 ? "" : "s", world.engine());
}

}  // namespace

BenchReport bench(const BenchTable& table, const BenchOptions& options, World& world,
                  std::ostream& out) {
  check_ids(table, options.rows);
  std::vector<PreparedRow> rows;
  for (const BenchRow& row : table.rows) {
    const bool wanted = options.rows.empty() || std::ranges::count(options.rows, row.id) > 0;
    if (wanted) rows.push_back(prepare(table, row, options.overrides));
  }
  BenchReport result{.table = table,
                     .device = device_of(rows.front(), options.measure_steps, world),
                     .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
                     .version = SPILLWAY_VERSION};
  out << fmt::format("{}\n\n{:<32} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", table.title, "row", "step s",
                     "TFLOP/s", "published", "HBM GiB", "published", "host GiB");
  for (const PreparedRow& row : rows) {
    result.results.push_back(run_row(row, options.measure_steps, world));
    print_row(result.results.back(), out);
  }
  out << "\n";
  print_mean("rate", mean_rate_error(result), out);
  print_mean("memory", mean_memory_error(result), out);
  if (world.rank() == 0) write_report(options.out, report::bench_document(result), out);
  return result;
}

}  // namespace spillway
