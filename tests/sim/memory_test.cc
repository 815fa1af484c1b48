// The peak three times: as planned, as the sim device replays it, as the cpu device measures it.
#include <gmock/gmock.h>

#include "device/sim/simulate.h"
#include "tests/sim/toy_hardware.h"
#include "tests/strategies/trajectory.h"

namespace spillway {
namespace {

Config file(const char* name) {
  return load_config(std::string(SPILLWAY_SOURCE_DIR) + "/configs/run/" + name,
                     {"train.micro_batch=1", "train.seq_len=32"});
}

Config tied_llama() {
  Config config = tiny_llama(2);
  config.llama.tie_word_embeddings = true;
  return config;
}

Config predicting_deepseek() {
  Config config = tiny_deepseek();
  config.deepseek.num_nextn_predict_layers = 1;
  return config;
}

Config tied_predicting_deepseek() {
  Config config = predicting_deepseek();
  config.deepseek.tie_word_embeddings = true;
  config.train.accumulation = 2;
  return config;
}

struct NamedConfig {
  const char* name;
  Config (*make)();
};

class Memory : public ::testing::TestWithParam<NamedConfig> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Memory,
    ::testing::Values(
        NamedConfig{"llama", [] { return tiny_llama(4); }}, NamedConfig{"tied_llama", tied_llama},
        NamedConfig{"deepseek", tiny_deepseek},
        NamedConfig{"predicting_deepseek", predicting_deepseek},
        NamedConfig{"tied_predicting_deepseek", tied_predicting_deepseek},
        NamedConfig{"llama_tiny_yaml", [] { return file("llama_tiny.yaml"); }},
        NamedConfig{"deepseek_tiny_yaml", [] { return file("deepseek_tiny.yaml"); }}),
    [](const auto& info) { return info.param.name; });

// The plan depends on what the cost model says of time: this is one plan on both devices.
TEST_P(Memory, PlannedSimulatedAndMeasuredAreOneNumber) {
  Config config = GetParam().make();
  config.device.threads = 1;
  for (const NamedStrategy& strategy : kStrategies) {
    SCOPED_TRACE(strategy.name);
    set_strategy(config, strategy);
    Session session(config);
    (void)session.train_step(random_batch(config, 0), 0, 1e-3);
    const MemoryUse cpu = session.device().memory_use();
    const Step& train = session.compiled().train;
    const MemoryUse run = sim::simulate(train.schedule, train.plan, toy_hardware(), Mesh()).memory;
    EXPECT_EQ(run.hbm_high_water, train.plan.hbm.bytes);
    EXPECT_EQ(run.host_high_water, train.plan.host.bytes);
    EXPECT_EQ(cpu.hbm_high_water, train.plan.hbm.bytes);
    EXPECT_EQ(cpu.host_high_water, train.plan.host.bytes);
  }
}

}  // namespace
}  // namespace spillway
