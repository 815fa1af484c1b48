// What the strategies cost when copies take the time that a link would take. Times of a shared machine:
// generous bounds, the link is set from a measured step, and the best of a few tries counts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/strategies/trajectory.h"
#include "trainer/step_stats.h"

namespace spillway {
namespace {

constexpr int kTries = 5;

Config paced_config(double link_gb_per_s) {
  Config config = tiny_llama(8);
  config.llama.hidden_size = 128;
  config.llama.intermediate_size = 384;
  config.llama.head_dim = 32;
  config.train.micro_batch = 8;
  config.train.seq_len = 128;
  config.device.hbm_bytes = int64_t{1} << 30;
  config.device.host_bytes = int64_t{1} << 30;
  config.device.poison = false;
  config.device.link_gb_per_s = link_gb_per_s;
  return config;
}

struct Cost {
  double seconds = 1e9, exposed = 1e9, copies = 0;
};

// The step with the least exposed time: a busy machine only adds to it.
Cost best_step(const NamedStrategy& strategy, double link_gb_per_s) {
  Config config = paced_config(link_gb_per_s);
  set_strategy(config, strategy);
  Session session(config);
  Cost best;
  for (int64_t step = 0; step < kTries; ++step) {
    const StepResult r = session.train_step(random_batch(config, step), step, 1e-3);
    best.seconds = std::min(best.seconds, r.seconds);
    best.exposed = std::min(best.exposed, r.stats.exposed_seconds);
    best.copies = r.stats.copy_seconds_d2h + r.stats.copy_seconds_h2d;
  }
  return best;
}

// Exposed seconds once more, from what a trace shows of the compute stream.
double exposed_in_trace(const Schedule& schedule, std::span<const InstrTiming> timings) {
  double exposed = 0;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (instr.stream != Stream::kCompute) continue;
    if (!instr.waits.empty()) {
      // Between the end of the last thing it waited for and what came before it on its stream.
      int64_t ready = 0, previous = 0;
      for (int wait : instr.waits) ready = std::max(ready, timings[wait].end_ns);
      for (size_t j = i; j-- > 0;) {
        if (schedule.instrs[j].stream != Stream::kCompute) continue;
        previous = timings[j].end_ns;
        break;
      }
      exposed += static_cast<double>(std::max<int64_t>(0, ready - previous)) * 1e-9;
    }
    if (instr.op.kind == OpKind::kCopy) {
      exposed += static_cast<double>(timings[i].end_ns - timings[i].begin_ns) * 1e-9;
    }
  }
  return exposed;
}

TEST(SlowPacedLink, NaiveIsSlowestAndPipelinedHidesNineTenths) {
  const double keep = best_step({"keep", "none", true, true}, 0).seconds;
  Config config = paced_config(0);
  set_strategy(config, {"naive", "minimal_offloaded", false, false});
  const double bytes =
      static_cast<double>(copy_bytes(compile_config(config).train.schedule).d2h);
  // Forward takes about a third of a step. A layer's copy out lasts 40 % of the layer's forward.
  const double link_gb_per_s = bytes / (0.4 * keep / 3) * 1e-9;
  // Others on the machine disturb any one try; what holds shows in some try.
  std::string seen;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Cost naive = best_step({"naive", "minimal_offloaded", false, false}, link_gb_per_s);
    const Cost hidden = best_step({"hidden", "minimal_offloaded", true, false}, link_gb_per_s);
    const Cost pipelined = best_step({"pipelined", "minimal_offloaded", true, true}, link_gb_per_s);
    const bool naive_exposes_all = std::abs(naive.exposed - naive.copies) < 0.1 * naive.copies;
    const bool pipelined_hides = pipelined.exposed < 0.1 * pipelined.copies;
    const bool naive_is_slowest = naive.seconds > std::max(hidden.seconds, pipelined.seconds);
    if (naive_exposes_all && pipelined_hides && naive_is_slowest) return;
    for (const Cost& cost : {naive, hidden, pipelined}) {
      seen += fmt::format("step {:.4f} s, exposed {:.4f} of {:.4f} s; ", cost.seconds, cost.exposed,
                          cost.copies);
    }
    seen += "\n";
  }
  FAIL() << "naive, hidden, pipelined:\n" << seen;
}

TEST(SlowPacedLink, ExposedSecondsAgreeWithTheTrace) {
  for (const bool hide : {false, true}) {
    Config config = paced_config(0.05);  // slow: waits are long
    set_strategy(config, {"", "minimal_offloaded", hide, hide});
    Session session(config);
    const StepResult result = session.train_step(random_batch(config, 0), 0, 1e-3);
    const double traced =
        exposed_in_trace(session.compiled().train.schedule, session.timings());
    EXPECT_GT(result.stats.exposed_seconds, 0.1);
    EXPECT_NEAR(result.stats.exposed_seconds, traced, 0.02 * traced + 2e-3) << hide;
  }
}

}  // namespace
}  // namespace spillway
