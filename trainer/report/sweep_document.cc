#include "trainer/report/sweep_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/report/bench_charts.h"

namespace spillway::report {
namespace {

Table points_table(const SweepSubject& subject, const std::vector<SweepPoint>& points) {
  Table table{.caption = "Simulated; of a step that does not fit, rate and time are what they would be."};
  for (const std::string& key : subject.keys) table.columns.push_back({.title = key});
  table.columns.insert(table.columns.end(),
                       {{.title = "strategy", .number = false}, {.title = "ranks"},
                        {.title = "step time", .unit = "s"}, {.title = "rate", .unit = "TFLOP/s/device"},
                        {.title = "GPU memory", .unit = "GiB"}, {.title = "pinned host", .unit = "GiB/GPU"},
                        {.title = "recomputed", .unit = "s"}, {.title = "copies exposed", .unit = "s"},
                        {.title = "collectives exposed", .unit = "s"}, {.title = "fits", .number = false}});
  for (const SweepPoint& point : points) {
    const StepReport& step = point.step;
    const bool fits = step.fits();
    std::vector<Cell> row;
    for (const std::string& value : point.values) row.push_back({value});
    row.push_back({point.strategy.empty() ? "the config's" : point.strategy});
    row.push_back({std::to_string(step.ranks)});
    row.push_back({.text = fmt::format("{:.3f}", step.seconds), .faint = !fits});
    row.push_back({.text = fmt::format("{:.1f}", step.tflops_per_device), .faint = !fits});
    row.push_back({gib_text(step.hbm.peak)});
    row.push_back({gib_text(step.host.peak)});
    row.push_back({fmt::format("{:.3f}", step.parts.recompute)});
    row.push_back({fmt::format("{:.3f}", step.parts.copies)});
    row.push_back({fmt::format("{:.3f}", step.parts.collectives)});
    row.push_back({fits ? "yes" : "no"});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Bars of one chart are compared with one another, so the first of two keys stays the same in each.
Series& series_of(const SweepSubject& subject, const SweepPoint& point, std::vector<Series>& all) {
  const bool two = subject.keys.size() > 1;
  const std::string title = two ? fmt::format("{} {}", subject.keys[0], point.values[0]) : subject.config;
  if (all.empty() || all.back().title != title) {
    all.push_back(parts_series(title));
  }
  return all.back();
}

std::vector<Series> bars(const SweepSubject& subject, const std::vector<SweepPoint>& points) {
  std::vector<Series> all;
  for (const SweepPoint& point : points) {
    std::string name = fmt::format("{} {}", subject.keys.back(), point.values.back());
    if (!point.strategy.empty()) name += ": " + point.strategy;
    add_parts(series_of(subject, point, all), name, point.step);
  }
  return all;
}

}  // namespace

Document sweep_document(const SweepSubject& subject, const std::vector<SweepPoint>& points) {
  Section section{.title = "Points", .blocks = {points_table(subject, points)}};
  for (Series& series : bars(subject, points)) {
    section.blocks.push_back(Chart{.kind = ChartKind::kBars,
                                   .caption = "Seconds of a step as the compute stream sees it.",
                                   .series = {std::move(series)}});
  }
  return {.title = fmt::format("{} over {}", subject.config, fmt::join(subject.keys, " and ")),
          .subtitle = fmt::format("Simulated on {}", subject.machine),
          .sections = {std::move(section)}};
}

}  // namespace spillway::report
