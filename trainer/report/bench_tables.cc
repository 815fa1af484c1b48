#include "trainer/report/bench_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway::report {
namespace {

constexpr double kGiB = int64_t{1} << 30;
constexpr size_t kNamesAtPeak = 10;

Cell none() { return {.text = "-", .faint = true}; }

Cell published_cell(const std::optional<Published>& published) {
  if (!published) return {.text = "not public", .faint = true};
  return {.text = fmt::format("{}", published->value), .tag = name_of(published->tag)};
}

Cell ratio_cell(std::optional<double> ratio) {
  return ratio ? Cell{fmt::format("{:.3f}", *ratio)} : none();
}

// A figure that only a step that fits really has.
Cell rate_cell(const BenchResult& result, double value, int decimals) {
  if (!result.step) return none();
  Cell cell{fmt::format("{:.{}f}", value, decimals)};
  if (!result.step->fits()) cell = {.text = cell.text, .tag = "would be", .faint = true};
  return cell;
}

Cell bytes_cell(const BenchResult& result, int64_t bytes) {
  return result.step ? Cell{gib_text(bytes)} : none();
}

Cell kind_cell(const BenchResult& result) {
  if (!result.step) return {.text = "did not run", .faint = true};
  return {result.step->simulated ? "simulated" : "measured"};
}

Cell fits_cell(const BenchResult& result) {
  if (!result.step) return none();
  if (result.step->fits()) return {"yes"};
  return {.text = "no", .tag = shortage_text(*result.step)};
}

Cell published_fits_cell(const BenchRow& row) {
  if (!row.fits) return published_cell(row.fits);
  return {.text = row.fits->value != 0 ? "yes" : "no", .tag = name_of(row.fits->tag)};
}

bool publishes_tokens(const Results& results) {
  return std::ranges::any_of(results, [](const BenchResult* result) {
    return result->row.tokens_per_s_per_device.has_value();
  });
}

std::vector<Column> comparison_columns(bool tokens) {
  const std::string rate = "TFLOP/s/device", time = "Step time, s", gpu = "GPU memory, GiB",
                    host = "Pinned host, GiB/GPU", fits = "Fits", token = "Tokens/s/device";
  std::vector<Column> columns = {
      {.title = "Row", .number = false},    {.title = "Our figures", .number = false},
      {.title = "ours", .group = rate},     {.title = "published", .group = rate},
      {.title = "ratio", .group = rate},    {.title = "ours", .group = time},
      {.title = "published", .group = time}};
  if (tokens) {
    columns.push_back({.title = "ours", .group = token});
    columns.push_back({.title = "published", .group = token});
  }
  columns.insert(columns.end(), {{.title = "ours", .group = gpu},
                                 {.title = "published", .group = gpu},
                                 {.title = "ratio", .group = gpu},
                                 {.title = "ours", .group = host},
                                 {.title = "published", .group = host},
                                 {.title = "ours", .group = fits, .number = false},
                                 {.title = "published", .group = fits, .number = false}});
  return columns;
}

std::vector<Cell> comparison_row(const BenchResult& result, bool tokens) {
  const BenchRow& row = result.row;
  const StepReport step = result.step.value_or(StepReport());
  std::vector<Cell> cells = {{row.title},
                             kind_cell(result),
                             rate_cell(result, step.tflops_per_device, 1),
                             published_cell(row.tflops_per_device),
                             ratio_cell(rate_ratio(result)),
                             rate_cell(result, step.seconds, 3),
                             published_cell(row.seconds)};
  if (tokens) {
    cells.push_back(rate_cell(result, step.tokens_per_s_per_device, 1));
    cells.push_back(published_cell(row.tokens_per_s_per_device));
  }
  cells.insert(cells.end(),
               {bytes_cell(result, step.hbm.peak), published_cell(row.hbm_gib),
                ratio_cell(memory_ratio(result)), bytes_cell(result, step.host.peak),
                published_cell(row.host_gib), fits_cell(result), published_fits_cell(row)});
  return cells;
}

// none: one of the two has no rate.
std::optional<double> speedup(const BenchResult& result, const BenchResult* over) {
  if (!result.step || !result.step->fits() || over == nullptr || !over->step ||
      !over->step->fits() || over->step->tflops_per_device <= 0) {
    return std::nullopt;
  }
  return result.step->tflops_per_device / over->step->tflops_per_device;
}

}  // namespace

std::string gib_text(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / kGiB);
}

std::string shortage_text(const StepReport& step) {
  std::string text;
  const auto add = [&](const char* what, const SpaceReport& space) {
    if (space.fits()) return;
    text += fmt::format("{}{} by {} GiB", text.empty() ? "" : ", ", what,
                        gib_text(space.peak - space.capacity));
  };
  add("GPU", step.hbm);
  add("host", step.host);
  return text;
}

Table comparison_table(const Results& results) {
  const bool tokens = publishes_tokens(results);
  Table table{.caption = "", .columns = comparison_columns(tokens), .rows = {}};
  for (const BenchResult* result : results) table.rows.push_back(comparison_row(*result, tokens));
  return table;
}

Table memory_table(const Results& results) {
  const std::string gpu = "GPU, GiB", host = "Pinned host, GiB";
  Table table{.caption = "Memory: what the plan takes, and what it may take",
              .columns = {{.title = "Row", .number = false},
                          {.title = "plan", .group = gpu},
                          {.title = "capacity", .group = gpu},
                          {.title = "reserve outside the plan", .group = gpu},
                          {.title = "plan per GPU", .group = host},
                          {.title = "capacity per GPU", .group = host},
                          {.title = "plan per socket", .group = host},
                          {.title = "GPUs per socket", .group = host}},
              .rows = {}};
  for (const BenchResult* result : results) {
    if (!result->step) continue;
    const StepReport& step = *result->step;
    table.rows.push_back({{result->row.title},
                          {gib_text(step.hbm.peak)},
                          {gib_text(step.hbm.capacity)},
                          {gib_text(step.hbm.reserved)},
                          {gib_text(step.host.peak)},
                          {gib_text(step.host.capacity)},
                          {gib_text(step.host_per_socket())},
                          {std::to_string(step.gpus_per_socket)}});
  }
  return table;
}

Table speedup_table(const Results& results, const BenchReport& report) {
  Table table{.caption = "Speedup over another row, by TFLOP/s/device",
              .columns = {{.title = "Row", .number = false},
                          {.title = "Over", .number = false},
                          {.title = "ours"},
                          {.title = "published"},
                          {.title = "ratio"}},
              .rows = {}};
  for (const BenchResult* result : results) {
    const BenchRow& row = result->row;
    if (!row.speedup) continue;
    const auto over = std::ranges::find(report.results, row.speedup_over,
                                        [](const BenchResult& other) { return other.row.id; });
    const BenchResult* base = over == report.results.end() ? nullptr : &*over;
    const std::optional<double> ours = speedup(*result, base);
    table.rows.push_back({{row.title},
                          {base == nullptr ? row.speedup_over : base->row.title},
                          ratio_cell(ours),
                          published_cell(row.speedup),
                          ours ? ratio_cell(*ours / row.speedup->value) : none()});
  }
  return table;
}

Table engine_table(const StepReport& step) {
  Table table{.caption = "What each engine did",
              .columns = {{.title = "Engine", .number = false},
                          {.title = "busy", .unit = "s"},
                          {.title = "under compute", .unit = "s"},
                          {.title = "not under compute", .unit = "s"}},
              .rows = {}};
  for (int i = 0; i < kEngineCount; ++i) {
    const EngineTime& time = step.engines[i];
    table.rows.push_back({{std::string(name_of(static_cast<Engine>(i)))},
                          {fmt::format("{:.4f}", time.busy)},
                          {fmt::format("{:.4f}", time.hidden)},
                          {fmt::format("{:.4f}", time.exposed)}});
  }
  return table;
}

Table peak_table(const SpaceReport& space, const std::string& caption) {
  Table table{.caption = caption,
              .columns = {{.title = "Name", .number = false},
                          {.title = "live", .unit = "GiB"},
                          {.title = "buffers"}},
              .rows = {}};
  MemorySum rest{.name = "all others", .bytes = 0, .buffers = 0};
  for (size_t i = 0; i < space.at_peak.size(); ++i) {
    const MemorySum& sum = space.at_peak[i];
    if (i < kNamesAtPeak) {
      table.rows.push_back({{sum.name}, {gib_text(sum.bytes)}, {std::to_string(sum.buffers)}});
    } else {
      rest.bytes += sum.bytes;
      rest.buffers += sum.buffers;
    }
  }
  if (rest.buffers > 0) {
    table.rows.push_back({{rest.name}, {gib_text(rest.bytes)}, {std::to_string(rest.buffers)}});
  }
  return table;
}

}  // namespace spillway::report
