#include "trainer/config.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/config_text.h"
#include "trainer/session.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kModel =
    "model:\n  vocab_size: 256\n  hidden_size: 64\n  intermediate_size: 96\n"
    "  num_hidden_layers: 2\n  num_attention_heads: 4\n";

Config load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TempDir dir;
  return load_config(dir.write("tiny.yaml", text), overrides);
}

Config load_with(const std::vector<std::string>& overrides) { return load(kModel, overrides); }

std::string error_with(const std::vector<std::string>& overrides) {
  return message_of<ConfigError>([&] { (void)load_with(overrides); });
}

TEST(Config, DefaultsFollowTheModel) {
  const Config config = load(kModel);
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.llama.num_key_value_heads, 4);
  EXPECT_EQ(config.llama.head_dim, 16);
  EXPECT_FALSE(config.llama.rope_scaling.has_value());
  EXPECT_FALSE(config.precision.separate_master());
  EXPECT_EQ(config.activation.policy, "none");
  EXPECT_EQ(config.device.hbm_bytes, int64_t{4} << 30);
  EXPECT_EQ(config.output.directory, "runs/tiny");
  EXPECT_EQ(config.data.validation_fraction, 0.05);
}

TEST(Config, ReadsEverySection) {
  const Config config =
      load_with({"precision={compute: bf16, gradients: bf16}",
                 "activation={policy: custom, custom: "
                 "{query_proj: offload, context: remat}, max_inflight_async: 2}",
                 "device={hbm_gib: 184.3, link_gb_per_s: 5, jitter_seed: 3, poison: true}",
                 "train={steps: 20, seed: 9}", "optimizer={beta2: 0.99}",
                 "schedule={kind: wsd, learning_rate: 1e-3, decay_steps: 5, min_ratio: 0}",
                 "data={kind: text, path: [a.txt, b.txt], validation_path: c.txt, shuffle: false}",
                 "output={directory: out, trace_step: 19}",
                 "checkpoint={every: 5, keep: 1, keep_every: 10, resume: none}"});
  EXPECT_TRUE(config.precision.separate_master());
  EXPECT_EQ(config.precision.gradients, DType::kBF16);
  EXPECT_EQ(config.activation.custom.at("query_proj"), Strategy::kOffload);
  EXPECT_EQ(config.activation.custom.at("context"), Strategy::kRemat);
  EXPECT_EQ(config.activation.max_inflight_async, 2);
  EXPECT_EQ(config.device.hbm_bytes, 197890618163);
  EXPECT_EQ(config.device.jitter_seed, 3u);
  EXPECT_EQ(config.train.seed, 9u);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.schedule.kind, LrKind::kWsd);
  EXPECT_THAT(config.data.paths, ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(config.data.validation_paths, ElementsAre("c.txt"));
  EXPECT_EQ(config.data.validation_fraction, 0);
  EXPECT_EQ(config.output.trace_step, 19);
  EXPECT_EQ(config.checkpoint.directory, "out/checkpoints");
  EXPECT_EQ(config.checkpoint.every, 5);
  EXPECT_EQ(config.checkpoint.keep, 1);
  EXPECT_EQ(config.checkpoint.keep_every, 10);
  EXPECT_EQ(config.checkpoint.resume, "none");
}

TEST(Config, ResolvedYamlReadsBackTheSame) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"precision.compute=bf16", "precision.master=none", "device.hbm_gib=184.3",
       "device.peak_tflops=0.1", "train.seed=9223372036854775807",
       "schedule={kind: wsd, learning_rate: 3.3333e-05, decay_steps: 5}"},
      {"activation={policy: custom, custom: {query_proj: offload, context: remat}}",
       "model.rope_scaling={rope_type: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, "
       "original_max_position_embeddings: 8192}",
       "data={kind: text, path: ['a b.txt', \"null\", '1.5', \"q\\\"uote: x\"], validation_path: "
       "v}",
       "output.directory='no'", "checkpoint={every: 2, keep: 0, resume: 'a b'}"},
  };
  for (const auto& overrides : variants) {
    const Config config = load_with(overrides);
    const std::string yaml = to_yaml(config);
    const Config again = load(yaml);
    EXPECT_EQ(to_yaml(again), yaml);
    EXPECT_EQ(again.device.hbm_bytes, config.device.hbm_bytes);
    EXPECT_EQ(again.train.seed, config.train.seed);
    EXPECT_EQ(again.data.paths, config.data.paths);
    EXPECT_EQ(again.output.directory, config.output.directory);
    EXPECT_EQ(again.schedule.learning_rate, config.schedule.learning_rate);
    EXPECT_EQ(again.activation.custom, config.activation.custom);
    EXPECT_EQ(again.llama.rope_scaling.has_value(), config.llama.rope_scaling.has_value());
  }
}

TEST(Config, WhatOnlyASimulationDoes) {
  EXPECT_THAT(error_with({"precision.products=fp8"}), HasSubstr("it needs bf16"));
  EXPECT_THAT(error_with({"simulate.hottest_expert_load=2"}), HasSubstr("has no experts"));
  EXPECT_THAT(error_with({"simulate.hottest_expert_load=0.5"}), HasSubstr("must be in [1"));
  EXPECT_THAT(error_with({"simulate.one_hot_dispatch=true"}), HasSubstr("capacity_factor above 0"));
  EXPECT_THAT(error_with({"simulate.far_sockets=true"}), HasSubstr("did you mean far_socket?"));
  const Config config = load_with({"precision.compute=bf16", "precision.products=fp8",
                                   "simulate.far_socket=true"});
  EXPECT_TRUE(config.precision.fp8_products);
  EXPECT_EQ(to_yaml(load(to_yaml(config))), to_yaml(config));
  // A device neither has fp8 products nor pretends to what is assumed.
  EXPECT_THAT(message_of<ConfigError>([&] { Session session(config); }),
              HasSubstr("simulate: its keys are for simulated steps"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                Session session(load_with({"precision.compute=bf16", "precision.products=fp8"}));
              }),
              HasSubstr("only simulated as yet"));
}

TEST(Config, UnknownKeysEverywhere) {
  EXPECT_THAT(error_with({"trian.steps=1"}), HasSubstr("trian is not a key, did you mean train?"));
  EXPECT_THAT(error_with({"train.step=1"}), HasSubstr("train.step is not a key, did you mean"));
  EXPECT_THAT(error_with({"model.hidden=1"}), HasSubstr("model.hidden is not a key"));
  EXPECT_THAT(error_with({"activation.custom.a=devise", "activation.policy=custom"}),
              HasSubstr("activation.custom.a is devise, did you mean device?"));
  EXPECT_THAT(error_with({"model.rope_scaling={rope_type: llama3, factor: 8}"}),
              HasSubstr("model.rope_scaling.low_freq_factor is missing"));
  EXPECT_THAT(error_with({"model.family=lama"}), HasSubstr("did you mean llama?"));
  EXPECT_THAT(message_of<ConfigError>([] { (void)load("modle:\n  vocab_size: 3\n"); }),
              HasSubstr("modle is not a key, did you mean model?"));
}

TEST(Config, SizesThatCannotBe) {
  for (const std::string key :
       {"train.seq_len", "train.micro_batch", "train.accumulation", "train.steps",
        "model.vocab_size", "model.num_hidden_layers", "activation.max_inflight_async"}) {
    EXPECT_THAT(error_with({key + "=0"}), HasSubstr(key + " is 0; must be")) << key;
  }
  EXPECT_THAT(error_with({"device.hbm_gib=0"}), HasSubstr("device.hbm_gib is 0; must be"));
  EXPECT_THAT(error_with({"train.accumulation=2147483648"}), HasSubstr("in [1, 2147483647]"));
  EXPECT_THAT(error_with({"train.steps=10000000000", "train.seq_len=4294967296"}),
              HasSubstr("2^63 or more"));
}

// More than 2^31 tokens, sequences x steps: no product may wrap.
TEST(Config, LongRunsAreCountedIn64Bits) {
  const Config config =
      load_with({"train.steps=10000000", "train.micro_batch=512", "train.seq_len=4096"});
  EXPECT_EQ(config.train.steps * config.train.batch_tokens(), int64_t{10'000'000} * 512 * 4096);
}

TEST(Config, HeadsMustDivide) {
  EXPECT_THAT(error_with({"model.num_attention_heads=6"}),
              HasSubstr("model.hidden_size is 64, not a multiple of num_attention_heads, 6"));
  EXPECT_THAT(error_with({"model.num_key_value_heads=3"}),
              HasSubstr("num_attention_heads is 4, not a multiple of num_key_value_heads, 3"));
  EXPECT_THAT(error_with({"model.head_dim=15"}), HasSubstr("model.head_dim is 15; must be even"));
  EXPECT_EQ(load_with({"model.num_attention_heads=6", "model.head_dim=10"}).llama.head_dim, 10);
}

TEST(Config, RulesOverSeveralKeys) {
  EXPECT_THAT(error_with({"activation.latency_hiding=false", "activation.pipelined=true"}),
              HasSubstr("activation.pipelined is true, but latency_hiding is false"));
  EXPECT_FALSE(load_with({"activation.latency_hiding=false"}).activation.pipelined);
  EXPECT_THAT(error_with({"activation.custom.context=remat"}), HasSubstr("need policy: custom"));
  EXPECT_THAT(error_with({"schedule.kind=wsd"}), HasSubstr("schedule.decay_steps is missing"));
  EXPECT_THAT(error_with({"schedule.decay_steps=3"}), HasSubstr("is for kind: wsd"));
  EXPECT_THAT(error_with({"data.kind=text"}), HasSubstr("data.path is missing"));
  EXPECT_THAT(error_with({"data.path=x"}), HasSubstr("data.kind is synthetic"));
  EXPECT_THAT(error_with({"data={kind: tokens, path: a, validation_path: b, "
                          "validation_fraction: 0.1}"}),
              HasSubstr("choose one"));
  EXPECT_THAT(error_with({"data.validation_fraction=0", "train.eval_every=5"}),
              HasSubstr("nothing to evaluate on"));
  EXPECT_THAT(error_with({"data={kind: text, path: a}", "model.vocab_size=97"}),
              HasSubstr("model.vocab_size is 97; text is read as bytes and needs 256"));
  EXPECT_THAT(error_with({"checkpoint={every: 4, keep_every: 6}"}),
              HasSubstr("checkpoint.keep_every is 6; it must be a multiple of checkpoint.every, which "
                        "is 4"));
  EXPECT_THAT(error_with({"checkpoint.keep=-1"}), HasSubstr("checkpoint.keep is -1"));
  EXPECT_THAT(error_with({"checkpoint.resume=''"}), HasSubstr("checkpoint.resume is empty"));
  EXPECT_THAT(error_with({"output.trace_step=100"}),
              HasSubstr("output.trace_step is 100, but train.steps is 100; the last step is 99"));
}

TEST(Config, EveryConfigThatShipsLoads) {
  const std::filesystem::path root = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "configs";
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "run")) {
    EXPECT_NO_THROW((void)load_config(entry.path())) << entry.path();
    for (const auto& activation : std::filesystem::directory_iterator(root / "activation")) {
      EXPECT_NO_THROW((void)load_config(entry.path(), {"activation=" + activation.path().string()}))
          << activation.path();
    }
    ++runs;
  }
  EXPECT_GE(runs, 9);
}

}  // namespace
}  // namespace spillway
