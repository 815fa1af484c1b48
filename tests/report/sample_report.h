// A made-up report of three rows: one that fits, one that does not, and one that could not run. Its texts
// are hostile to HTML, JSON in a script, and Markdown tables.
#pragma once

#include "trainer/report/bench_report.h"

namespace spillway {

inline constexpr const char* kHostile =
    "a|b </script><script>alert(1)</script> & \"quoted\" `code`";

inline Window sample_window(const std::string& slot, double begin) {
  return {
      .slot = slot,
      .begin = begin,
      .end = begin + 0.25,
      .spans = {
          {.engine = Engine::kCompute, .begin = begin, .end = begin + 0.125, .name = "linear, a"},
          {.engine = Engine::kD2h, .begin = begin + 0.0625, .end = begin + 0.3, .name = "copy b"}}};
}

inline StepReport sample_step(double seconds) {
  StepReport step;
  step.ranks = 8;
  step.gpus_per_socket = 2;
  step.seconds = seconds;
  step.tflops_per_device = 800 / seconds;
  step.tokens_per_s_per_device = 4096 / seconds;
  step.parts = {.model = seconds * 0.7,
                .recompute = seconds * 0.1,
                .copies = seconds * 0.05,
                .collectives = seconds * 0.125,
                .other = seconds * 0.025};
  step.engines[0] = {.busy = seconds * 0.8, .hidden = seconds * 0.8, .exposed = 0};
  step.engines[1] = {.busy = 0.5, .hidden = 0.375, .exposed = 0.125};
  step.hbm = {.peak = int64_t{100} << 30,
              .capacity = int64_t{176} << 30,
              .reserved = int64_t{8} << 30,
              .at_peak = {{.name = "parameters", .bytes = int64_t{60} << 30, .buffers = 12},
                          {.name = "query_proj", .bytes = int64_t{38} << 30, .buffers = 61}}};
  step.host = {.peak = int64_t{40} << 30,
               .capacity = int64_t{240} << 30,
               .reserved = 0,
               .at_peak = {{.name = "context", .bytes = int64_t{40} << 30, .buffers = 61}}};
  step.memory = {
      {.seconds = 0, .hbm = int64_t{60} << 30, .host = 0},
      {.seconds = seconds / 3, .hbm = (int64_t{99} << 30) + 12345678, .host = int64_t{40} << 30},
      {.seconds = seconds, .hbm = int64_t{60} << 30, .host = 0}};
  step.forward = sample_window("L1.fwd.m0", 0.5);
  step.backward = sample_window("L1.bwd.m0", 1.0 / 3 + 1);
  return step;
}

inline BenchRow sample_row(const std::string& id, const std::string& title, const std::string& group,
                           int ranks) {
  return {.id = id, .title = title, .group = group, .config = "toy.yaml", .overrides = {},
          .hardware = "toy", .ranks = ranks};
}

inline BenchRow offload_row() {
  BenchRow row = sample_row("offload", "Offload", "Table 1", 8);
  row.overrides = {"train.micro_batch=8"};
  row.tflops_per_device = Published{500, Tag::kQuoted, "Table 1, row 2"};
  row.hbm_gib = Published{125, Tag::kDerived, "70 % of 178.6"};
  row.fits = Published{1, Tag::kQuoted, "Table 1, row 2"};
  row.speedup = Published{1.25, Tag::kInferred, "Figure 3, read off"};
  row.speedup_over = "keep";
  row.assumptions = {"One micro-batch."};
  row.missing = "Fused kernels.";
  return row;
}

inline BenchReport sample_report() {
  BenchReport report;
  report.table = {.name = "sample", .path = "configs/sample/table.yaml", .title = "A sample",
                  .source = "Nobody, 2025", .notes = {"Nothing here is true."}, .rows = {}};
  report.device = "simulated";
  report.date = "2026-01-02";
  report.version = "1.2.3";
  report.results.push_back({offload_row(), sample_step(2), "", "fsdp 8"});
  BenchRow keep = sample_row("keep", "Keep", "Table 1", 8);
  keep.seconds = Published{2.5, Tag::kQuoted, "Table 1, row 1"};
  report.results.push_back({keep, sample_step(1.6), "", "fsdp 8"});
  report.results[1].step->hbm.peak = int64_t{200} << 30;
  report.results.push_back({sample_row("hostile", kHostile, "Table 2", 3), std::nullopt, kHostile, ""});
  return report;
}

}  // namespace spillway
