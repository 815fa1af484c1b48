#include "trainer/report/bench_charts.h"

#include <algorithm>

namespace spillway::report {
namespace {

using Json = nlohmann::json;

constexpr double kGiB = int64_t{1} << 30;

double gib(int64_t bytes) { return rounded(static_cast<double>(bytes) / kGiB, 5); }

// A published rate becomes the time in which it does our count of the step's FLOPs.
Json published_seconds(const BenchResult& result) {
  const BenchRow& row = result.row;
  const StepReport& step = *result.step;
  if (row.seconds) return rounded(row.seconds->value);
  if (row.tflops_per_device) {
    return rounded(step.seconds * step.tflops_per_device / row.tflops_per_device->value);
  }
  if (row.tokens_per_s_per_device) {
    return rounded(step.seconds * step.tokens_per_s_per_device /
                   row.tokens_per_s_per_device->value);
  }
  return nullptr;
}

bool contains(const Results& results, const BenchResult* result) {
  return std::ranges::find(results, result) != results.end();
}

Series memory_series(const BenchResult& result) {
  const StepReport& step = *result.step;
  const bool host = step.host.peak > 0;
  Series series{.title = result.row.title, .columns = {"seconds", "GPU GiB"}, .rows = {}};
  series.facts.emplace_back("GPU capacity", gib(step.hbm.capacity));
  if (host) {
    series.columns.push_back("host GiB");
    series.facts.emplace_back("host capacity", gib(step.host.capacity));
  }
  for (const MemoryPoint& point : step.memory) {
    std::vector<Json> row = {rounded(point.seconds), gib(point.hbm)};
    if (host) row.emplace_back(gib(point.host));
    series.rows.push_back(std::move(row));
  }
  return series;
}

void add_spans(const Window& window, const char* phase, Series& series) {
  const auto microseconds = [&](double seconds) { return rounded((seconds - window.begin) * 1e6); };
  series.facts.emplace_back(phase, microseconds(window.end));
  for (const Span& span : window.spans) {
    series.rows.push_back({phase, std::string(name_of(span.engine)), span.name,
                           microseconds(span.begin), microseconds(span.end)});
  }
}

}  // namespace

Series parts_series(std::string title) {
  return {.title = std::move(title),
          .columns = {"row", "model", "recompute", "copies", "collectives", "other", "total",
                      "published", "fits"},
          .rows = {}};
}

void add_parts(Series& series, const std::string& row, const StepReport& step, Json published) {
  const StepParts& parts = step.parts;
  series.rows.push_back({row, rounded(parts.model), rounded(parts.recompute), rounded(parts.copies),
                         rounded(parts.collectives), rounded(parts.other), rounded(step.seconds),
                         std::move(published), step.fits() ? "yes" : "no"});
}

Chart parts_chart(const std::string& group, const Results& results) {
  Series series = parts_series(group + ": where the step's seconds go");
  for (const BenchResult* result : results) {
    if (result->step) add_parts(series, result->row.title, *result->step, published_seconds(*result));
  }
  return {.kind = ChartKind::kBars,
          .caption =
              "Seconds of a step as the compute stream sees it: ops of the model, ops that are "
              "recomputed, copies and collectives that nothing hides, and other waiting. A mark "
              "across a bar is the published step time; where only a rate is published, the "
              "time in which it does our count of model FLOPs.",
          .series = {std::move(series)}};
}

Chart memory_chart(const Results& results, const Results& main) {
  Chart chart{.kind = ChartKind::kMemory,
              .caption =
                  "Live bytes of one GPU's plan over the step; the plan's own size, which is what "
                  "a run takes, also has the gaps between buffers.",
              .series = {}};
  for (const BenchResult* result : results) {
    if (!result->step || result->step->memory.empty()) continue;
    chart.series.push_back(memory_series(*result));
    chart.series.back().main = contains(main, result);
  }
  return chart;
}

Chart streams_chart(const Results& results, const Results& main) {
  Chart chart{.kind = ChartKind::kStreams,
              .caption =
                  "The middle layer of the first micro-batch, forward and backward; what ran "
                  "beside it for other "
                  "layers names them. Times count from its first op; the numbers are microseconds.",
              .series = {}};
  for (const BenchResult* result : results) {
    if (!result->step || result->step->forward.slot.empty()) continue;
    const StepReport& step = *result->step;
    Series series{.title = result->row.title + ", " +
                           step.forward.slot.substr(0, step.forward.slot.find('.')),
                  .main = contains(main, result),
                  .columns = {"window", "engine", "name", "begin", "end"},
                  .rows = {}};
    add_spans(step.forward, "forward", series);
    if (!step.backward.slot.empty()) add_spans(step.backward, "backward", series);
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Results main_rows(const std::vector<Results>& groups) {
  Results main;
  for (const Results& group : groups) {
    const BenchResult* best = nullptr;
    for (const BenchResult* result : group) {
      if (!result->step) continue;
      const bool better = best == nullptr || (result->step->fits() && !best->step->fits()) ||
                          (result->step->fits() == best->step->fits() && result->step->fits() &&
                           result->step->tflops_per_device > best->step->tflops_per_device);
      if (better) best = result;
    }
    if (best != nullptr) main.push_back(best);
  }
  return main;
}

}  // namespace spillway::report
