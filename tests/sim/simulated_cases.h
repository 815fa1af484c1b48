// Configs for simulations, and what holds of every simulated step.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/strategies/trajectory.h"
#include "trainer/simulated.h"
#include "trainer/step_stats.h"

namespace spillway {

// Large enough that launches do not decide.
inline Config llama() {
  Config config = tiny_llama(4);
  config.precision.compute = DType::kBF16;
  config.llama.hidden_size = 1024;
  config.llama.intermediate_size = 4096;
  config.llama.num_attention_heads = 8;
  config.llama.head_dim = 128;
  config.train.seq_len = 1024;
  config.train.loss_chunk_tokens = 2048;
  return config;
}

inline Config deepseek() {
  Config config = tiny_deepseek();
  config.precision.compute = DType::kBF16;
  config.deepseek.hidden_size = 1024;
  config.deepseek.intermediate_size = 2048;
  config.deepseek.moe_intermediate_size = 512;
  config.train.seq_len = 1024;
  config.train.loss_chunk_tokens = 2048;
  config.parallel.experts.rows = 2;
  return config;
}

// Nanoseconds in which an instruction of the kind ran: by a sweep over begins and ends, without
// looking at streams.
template <typename Kind>
int64_t swept_ns(const Schedule& schedule, std::span<const InstrTiming> timings, const Kind& kind) {
  std::vector<std::pair<int64_t, int>> edges;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    if (!kind(schedule.instrs[i])) continue;
    edges.emplace_back(timings[i].begin_ns, 1);
    edges.emplace_back(timings[i].end_ns, -1);
  }
  std::ranges::sort(edges);
  int64_t total = 0, since = 0;
  int open = 0;
  for (const auto& [at, change] : edges) {
    if (open == 0) since = at;
    open += change;
    if (open == 0) total += at - since;
  }
  return total;
}

inline bool is_copy(const Instr& instr) { return instr.op.kind == OpKind::kCopy; }

// Streams run in order and one instruction at a time, nothing begins before what it waits for has
// ended, and the sums of the step's statistics are those of the sweep.
inline void expect_consistent(const SimulatedStep& step) {
  const Schedule& schedule = step.compiled.train.schedule;
  const std::vector<InstrTiming>& timings = step.run.timings;
  std::array<int64_t, kStreamCount> end = {}, busy = {};
  for (size_t i = 0; i < timings.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    const auto stream = static_cast<size_t>(instr.stream);
    ASSERT_NEAR(timings[i].begin_ns - timings[i].wait_ns, end[stream], 1) << "instruction " << i;
    ASSERT_GE(timings[i].begin_ns, end[stream]) << "instruction " << i;
    ASSERT_GE(timings[i].end_ns, timings[i].begin_ns) << "instruction " << i;
    for (int wait : instr.waits) {
      ASSERT_GE(timings[i].begin_ns, timings[wait].end_ns) << "instruction " << i;
    }
    end[stream] = timings[i].end_ns;
    busy[stream] += timings[i].end_ns - timings[i].begin_ns;
  }
  const int64_t last = std::ranges::max(end);
  EXPECT_NEAR(step.seconds, static_cast<double>(last) * 1e-9, 1e-12);
  for (int64_t ns : busy) EXPECT_LE(ns, last);

  const int64_t computing = swept_ns(schedule, timings, [](const Instr& instr) {
    return instr.stream == Stream::kCompute && !is_copy(instr) && !is_collective(instr.op.kind);
  });
  const double rounding = 1e-9 * static_cast<double>(timings.size());  // a nanosecond each
  const StepStats stats = step_stats(schedule, timings);
  EXPECT_NEAR(stats.exposed_seconds + stats.exposed_collective_seconds,
              static_cast<double>(end[0] - computing) * 1e-9, rounding);
  EXPECT_NEAR(stats.copy_seconds_d2h,
              static_cast<double>(swept_ns(schedule, timings, [&](const Instr& instr) {
                return is_copy_to_host(schedule, instr);
              })) * 1e-9, rounding);
  EXPECT_NEAR(step.run.classes.at(0).compute_seconds, static_cast<double>(computing) * 1e-9,
              rounding);
}

}  // namespace spillway
