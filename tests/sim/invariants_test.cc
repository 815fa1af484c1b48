// What holds of every step on every machine, under each of the five strategies.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/sim/simulated_cases.h"
#include "trainer/compare.h"
#include "trainer/hardware_file.h"
#include "trainer/mesh_config.h"

namespace spillway {
namespace {

struct Case {
  Config config;
  int ranks = 1;
};

std::vector<Case> cases() {
  std::vector<Case> result = {{tiny_llama(2)}, {llama()}, {deepseek()}};
  result.push_back({llama(), 12});  // groups of six cross domains of eight here and there
  result.back().config.parallel.mesh = {.data = 2, .fsdp = 6};
  result.push_back({deepseek(), 16});
  result.back().config.parallel.mesh = {.data = 1, .fsdp = 4, .expert = 4};
  return result;
}

// Calls visit(simulated step, mesh) for all.
template <typename Visit>
void for_every_step(const Hardware& hardware, const Visit& visit) {
  for (const auto& [config, ranks] : cases()) {
    for (const Config& variant : five_strategies(config)) {
      SCOPED_TRACE(variant.name + ", " + std::to_string(ranks) + " ranks");
      visit(simulate_step(variant, hardware, ranks), mesh_of(variant, ranks, 0));
    }
  }
}

std::vector<std::string> hardware_files() {
  std::vector<std::string> names;
  const std::filesystem::path source = SPILLWAY_SOURCE_DIR;
  for (const auto& file : std::filesystem::directory_iterator(source / "configs/hardware")) {
    names.push_back(file.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

class Invariants : public ::testing::TestWithParam<std::string> {
 protected:
  Hardware hardware_ =
      load_hardware(std::string(SPILLWAY_SOURCE_DIR) + "/configs/hardware/" + GetParam() + ".yaml");
};
INSTANTIATE_TEST_SUITE_P(Every, Invariants, ::testing::ValuesIn(hardware_files()),
                         [](const auto& info) { return info.param; });

double bytes_of(const Schedule& schedule, const Instr& instr) {
  return static_cast<double>(schedule.buffers[instr.op.in[0]].bytes());
}

// Neither a link nor a memory moves more than it can, in all the time that anything uses it.
void expect_no_resource_oversubscribed(const SimulatedStep& step, const Hardware& hardware) {
  const Schedule& schedule = step.compiled.train.schedule;
  double hbm = 0, host = 0;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    hbm += static_cast<double>(instr_bytes(schedule, instr));
    if (!is_copy(instr)) continue;
    const double bytes = bytes_of(schedule, instr);
    hbm -= bytes;  // the other end is in host memory
    host += bytes;
    const bool out = is_copy_to_host(schedule, instr);
    const double link = (out ? hardware.d2h_gb_per_s : hardware.h2d_gb_per_s).value;
    const InstrTiming& timing = step.run.timings[i];
    EXPECT_GE(static_cast<double>(timing.end_ns - timing.begin_ns) + 2, bytes / link);
  }
  const auto copying = static_cast<double>(swept_ns(schedule, step.run.timings, is_copy));
  EXPECT_LE(host * hardware.gpus_per_socket,
            (copying + 2) * hardware.host_gb_per_s_per_socket.value * (1 + 1e-6));
  EXPECT_LE(hbm, step.seconds * 1e9 * hardware.hbm_gb_per_s.value * (1 + 1e-6));
}

TEST_P(Invariants, StreamsWaitsAndResources) {
  for_every_step(hardware_, [&](const SimulatedStep& step, const Mesh&) {
    expect_consistent(step);
    expect_no_resource_oversubscribed(step, hardware_);
    EXPECT_EQ(step.run.memory.hbm_high_water, step.compiled.train.plan.hbm.bytes);
    EXPECT_EQ(step.run.memory.host_high_water, step.compiled.train.plan.host.bytes);
    EXPECT_EQ(step.run.memory.scratch_bytes, 0);
  });
}

// How many times as long a step takes when a link is twice as fast: the worst of the links.
double worst_slowdown(const Step& step, const Hardware& hardware, const Mesh& mesh) {
  const auto seconds = [&](const Hardware& on) {
    return sim::simulate(step.schedule, step.plan, on, mesh).seconds;
  };
  std::array<Hardware, 4> faster;
  faster.fill(hardware);
  faster[0].d2h_gb_per_s.value *= 2;
  faster[1].h2d_gb_per_s.value *= 2;
  faster[2].nic_gb_per_s.value *= 2;
  for (CollectiveRow& row : faster[3].collectives.rows) row.gb_per_s *= 2;
  double worst = 0;
  for (const Hardware& each : faster) worst = std::max(worst, seconds(each));
  return worst / seconds(hardware);
}

// Where a memory is short, a faster copy takes some of it from a copy or a kernel that others wait
// for: then a step may become longer, by very little.
TEST_P(Invariants, AFasterLinkNeverSlowsAStep) {
  Hardware ample = hardware_;
  ample.host_gb_per_s_per_socket.value *= 100;
  ample.hbm_gb_per_s.value *= 100;
  for_every_step(hardware_, [&](const SimulatedStep& step, const Mesh& mesh) {
    EXPECT_LE(worst_slowdown(step.compiled.train, hardware_, mesh), 1 + 1e-3);
    EXPECT_LE(worst_slowdown(step.compiled.train, ample, mesh), 1 + 1e-9) << "ample memories";
  });
}

}  // namespace
}  // namespace spillway
