#include "trainer/report/bench_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/report/bench_charts.h"
#include "trainer/report/bench_tables.h"

namespace spillway::report {
namespace {

constexpr double kMiss = 0.15;  // a ratio further from 1 than this is explained

// By BenchRow::group, in the order in which groups appear.
std::vector<Results> grouped(const BenchReport& report) {
  std::vector<Results> groups;
  for (const BenchResult& result : report.results) {
    const auto same = [&](const Results& group) { return group[0]->row.group == result.row.group; };
    const auto found = std::ranges::find_if(groups, same);
    if (found == groups.end()) {
      groups.push_back({&result});
    } else {
      found->push_back(&result);
    }
  }
  return groups;
}

std::string mean_text(const char* what, std::optional<MeanError> mean) {
  if (!mean) return fmt::format("{}: no row has both a published figure and ours.", what);
  return fmt::format("{}: mean absolute error {:.1f} % over {} row{}.", what, 100 * mean->value,
                     mean->rows, mean->rows == 1 ? "" : "s");
}

// Rows with a published rate that no ratio exists for: a mean must not hide them.
std::string left_out_text(const BenchReport& report) {
  std::string text;
  for (const BenchResult& result : report.results) {
    const BenchRow& row = result.row;
    if (!row.tflops_per_device && !row.seconds && !row.tokens_per_s_per_device) continue;
    if (rate_ratio(result)) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", row.title,
                        result.step ? "does not fit here" : "did not run here");
  }
  return text.empty() ? text
                      : "Not in the mean of the rate, though a rate is published: " + text + ".";
}

Section summary(const BenchReport& report) {
  List means{{mean_text("Rate (TFLOP/s/device, or time)", mean_rate_error(report)),
              mean_text("GPU memory", mean_memory_error(report))}};
  if (std::string text = left_out_text(report); !text.empty())
    means.items.push_back(std::move(text));
  Section section{.title = "Summary", .blocks = {std::move(means)}};
  if (!report.table.notes.empty()) section.blocks.emplace_back(List{report.table.notes});
  section.blocks.emplace_back(Text{"How to read the figures:"});
  section.blocks.emplace_back(List{
      {"quoted: it stands in the source. derived: arithmetic on quoted figures, which the list of "
       "sources "
       "gives. inferred: may be wrong. not public: no figure is known.",
       "simulated: from a model of the hardware; nobody measured it. would be: the rate of a step "
       "that does "
       "not fit, so that it has no ratio and counts in no mean.",
       "Memory is what the plan takes, without the reserve outside it. 1 GiB is 2^30 bytes."}});
  return section;
}

bool misses(std::optional<double> ratio) { return ratio && std::abs(*ratio - 1) > kMiss; }

std::string miss_text(const BenchResult& result) {
  std::string what;
  const auto add = [&](std::string text) { what += (what.empty() ? "" : ", ") + text; };
  if (const auto ratio = rate_ratio(result); misses(ratio)) {
    add(fmt::format("rate {:.3f} of the published", *ratio));
  }
  if (const auto ratio = memory_ratio(result); misses(ratio)) {
    add(fmt::format("GPU memory {:.3f} of the published", *ratio));
  }
  if (result.step && result.row.fits && (result.row.fits->value != 0) != result.step->fits()) {
    add(result.step->fits() ? "fits here, not there" : "fits there, not here");
  }
  if (what.empty()) return what;
  return fmt::format("{}: {}. {}", result.row.title, what,
                     result.row.missing.empty()
                         ? "The table does not say what the prediction lacks."
                         : result.row.missing);
}

void add_list(Section& section, const std::string& title, std::vector<std::string> items) {
  if (items.empty()) return;
  section.blocks.emplace_back(Text{title});
  section.blocks.emplace_back(List{std::move(items)});
}

Section group_section(const Results& results, const BenchReport& report) {
  Section section{.title = results[0]->row.group, .blocks = {comparison_table(results)}};
  if (Table table = speedup_table(results, report); !table.rows.empty()) {
    section.blocks.emplace_back(std::move(table));
  }
  std::vector<std::string> missing, failed;
  for (const BenchResult* result : results) {
    if (std::string text = miss_text(*result); !text.empty()) missing.push_back(std::move(text));
    if (!result->step) failed.push_back(result->row.title + ": " + result->error);
  }
  add_list(section,
           fmt::format("Off by more than {:.0f} %, and what the prediction lacks:", 100 * kMiss),
           std::move(missing));
  add_list(section, "Could not run:", std::move(failed));
  Chart chart = parts_chart(results[0]->row.group, results);
  if (!chart.series[0].rows.empty()) {
    section.blocks.emplace_back(std::move(chart));
    section.blocks.emplace_back(memory_table(results));
  }
  return section;
}

Section row_section(const BenchResult& result) {
  const BenchRow& row = result.row;
  std::vector<std::string> facts = {
      "Row: " + row.id, "Config: " + row.config.filename().string(), "Hardware: " + row.hardware,
      fmt::format("Ranks: {}{}{}", row.ranks, result.mesh.empty() ? "" : ", ", result.mesh)};
  for (const std::string& text : row.overrides) facts.push_back("Set: " + text);
  for (const std::string& text : row.assumptions) facts.push_back("Assumed: " + text);
  if (!row.missing.empty()) facts.push_back("The prediction lacks: " + row.missing);
  Section section{.title = row.title, .blocks = {List{std::move(facts)}}, .folded = true};
  if (!result.step) {
    section.blocks.emplace_back(Text{"Could not run: " + result.error});
    return section;
  }
  const StepReport& step = *result.step;
  section.blocks.emplace_back(
      Text{fmt::format("{}: {:.4f} s a step, {:.1f} TFLOP/s and {:.1f} tokens/s a device{}.",
                       step.simulated ? "Simulated" : "Measured", step.seconds,
                       step.tflops_per_device, step.tokens_per_s_per_device,
                       step.fits() ? "" : ", if it fitted; too large: " + shortage_text(step))});
  section.blocks.emplace_back(engine_table(step));
  section.blocks.emplace_back(peak_table(step.hbm, "GPU memory: live at the peak, by name"));
  if (step.host.peak > 0) {
    section.blocks.emplace_back(
        peak_table(step.host, "Pinned host memory: live at the peak, by name"));
  }
  return section;
}

Section sources(const BenchReport& report) {
  List list;
  const auto add = [&](const BenchRow& row, const char* what,
                       const std::optional<Published>& figure) {
    if (!figure) return;
    list.items.push_back(fmt::format("{}, {}: {} ({}). {}", row.title, what, figure->value,
                                     name_of(figure->tag), figure->source));
  };
  for (const BenchResult& result : report.results) {
    const BenchRow& row = result.row;
    add(row, "TFLOP/s/device", row.tflops_per_device);
    add(row, "step time in s", row.seconds);
    add(row, "tokens/s/device", row.tokens_per_s_per_device);
    add(row, "GPU memory in GiB", row.hbm_gib);
    add(row, "pinned host memory in GiB per GPU", row.host_gib);
    add(row, "fits (1: yes, 0: no)", row.fits);
    add(row, "speedup", row.speedup);
  }
  return {.title = "Sources of published figures",
          .blocks = {Text{report.table.source}, std::move(list)}};
}

}  // namespace

Document bench_document(const BenchReport& report) {
  Document document{
      .title = report.table.title,
      .subtitle = fmt::format("Spillway {}, {}. Ran on: {}. Published figures: {}", report.version,
                              report.date, report.device, report.table.source),
      .sections = {summary(report)}};
  const std::vector<Results> groups = grouped(report);
  Section details{.title = "Row by row", .blocks = {}};
  Results all;
  for (const Results& group : groups) {
    document.sections.push_back(group_section(group, report));
    for (const BenchResult* result : group) {
      all.push_back(result);
      details.sections.push_back(row_section(*result));
    }
  }
  const Results main = main_rows(groups);
  const auto add_chart = [&](const char* title, Chart chart) {
    if (chart.series.empty()) return;
    document.sections.push_back({.title = title, .blocks = {std::move(chart)}});
  };
  add_chart("Memory over a step", memory_chart(all, main));
  add_chart("One layer, stream by stream", streams_chart(all, main));
  document.sections.push_back(std::move(details));
  document.sections.push_back(sources(report));
  return document;
}

}  // namespace spillway::report
