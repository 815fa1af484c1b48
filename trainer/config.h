// A run's configuration: one YAML file, strict, with command-line overrides.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/sim/assumptions.h"
#include "model/deepseek.h"
#include "model/llama.h"
#include "model/model.h"
#include "parallel/mesh.h"
#include "parallel/shard.h"
#include "program/tensor.h"
#include "trainer/lr_schedule.h"
#include "trainer/yaml.h"

namespace spillway {

enum class ModelFamily : uint8_t { kLlama, kDeepseek };

// Resolved against a Program by offload/policy.
struct ActivationConfig {
  std::string policy = "none";
  std::map<std::string, Strategy> custom;  // activation name -> strategy; policy "custom" only
  bool latency_hiding = true;
  bool pipelined = true;  // needs latency_hiding
  int max_inflight_async = 8;
};

struct TrainConfig {
  int64_t steps = 100;
  int64_t micro_batch = 8;   // sequences
  int64_t accumulation = 1;  // micro-batches per step
  int64_t global_batch = 0;  // sequences of a step, all ranks; 0: micro_batch x accumulation x ranks
                             // that have sequences of their own. Else accumulation follows from it
  int64_t seq_len = 256;     // tokens
  uint64_t seed = 0;
  int64_t loss_chunk_tokens = 1024;  // logits held at once
  int64_t eval_every = 0;            // steps; 0: never
  int64_t eval_batches = 8;          // micro-batches, over all ranks
  int64_t log_every = 10;  // steps between lines on stdout

  // Of one rank.
  [[nodiscard]] int64_t batch_sequences() const { return micro_batch * accumulation; }
  [[nodiscard]] int64_t batch_tokens() const { return batch_sequences() * seq_len; }
};

enum class DataKind : uint8_t {
  kText,       // every byte of the files is a token
  kTokens,     // shards of token ids (trainer/shard_source.h)
  kSynthetic,  // random tokens; needs no file
};

// Paths of data are relative to the current directory, wherever the config lies.
struct DataConfig {
  DataKind kind = DataKind::kSynthetic;
  std::vector<std::string> paths = {};             // read as one text, in this order
  std::vector<std::string> validation_paths = {};  // or
  double validation_fraction = 0;                  // the last fraction of the tokens of `paths`
  bool shuffle = true;
};

// How ranks divide the work (parallel/mesh.h).
struct ParallelConfig {
  MeshConfig mesh;
  bool optimizer_only = false;  // fsdp divides gradients and states between steps, not what compute reads
  int gather_ahead = 1;         // slots that a parameter gather may start before its own
  ExpertBuffers experts;
  double timeout_s = 600;  // an exchange between ranks that takes longer ends the run
};

struct OutputConfig {
  std::string directory;    // relative to the current directory
  bool metrics = true;      // metrics.jsonl
  int64_t trace_step = -1;  // the step to write a Chrome trace of; -1: none
};

// What survives a run (trainer/checkpoint.h).
struct CheckpointConfig {
  std::string directory;         // of the checkpoints; relative to the current directory
  int64_t every = 0;             // steps between two; 0: none is written
  int64_t keep = 3;              // the newest that stay; 0: all
  int64_t keep_every = 0;        // checkpoints of multiples of so many steps stay for good; 0: none
  std::string resume = "auto";   // auto: the newest in `directory`, if any; none; or a checkpoint's path
};

struct Config {
  std::string name;  // of the file, without folder and extension
  ModelFamily family = ModelFamily::kLlama;
  LlamaConfig llama;        // the model, of family kLlama
  DeepseekConfig deepseek;  // the model, of family kDeepseek
  Precision precision;
  ActivationConfig activation;
  ParallelConfig parallel;
  DeviceOptions device;
  TrainConfig train;
  OptimizerConfig optimizer;
  LrSchedule schedule;
  DataConfig data;
  OutputConfig output;
  CheckpointConfig checkpoint;
  sim::Assumptions simulate;  // of simulated steps only: no device can do otherwise than it does

  [[nodiscard]] int64_t vocab_size() const {
    return family == ModelFamily::kLlama ? llama.vocab_size : deepseek.vocab_size;
  }
};

// Reads, applies overrides such as `train.steps=20`, and checks everything that needs neither a
// device nor the data. A section may be the path of another YAML file, relative to the file that
// names it. Throws ConfigError; allocates nothing of the run. `overrides_from`: the file that the
// overrides stand in, for messages and for paths in them.
[[nodiscard]] Config load_config(const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides = {},
                                 const std::string& overrides_from = kCommandLine);

}  // namespace spillway
