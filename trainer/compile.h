// Compiles a training step: config in, Schedule and MemoryPlan out. compile.cc lists the passes.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "offload/policy.h"
#include "parallel/gather.h"
#include "parallel/layout.h"
#include "parallel/mesh.h"
#include "parallel/shard.h"
#include "program/cost_model.h"
#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

struct CompileOptions {
  ActivationPolicy activation;
  bool latency_hiding = true, pipelined = true;
  int max_inflight_async = 8;
  int micro_batches = 1;
  Mesh mesh;
  ExpertBuffers experts;
  Gathering gathering;
  int gather_ahead = 1;  // slots that a parameter gather may be issued before its own
  // Capacities in bytes, and the device's name for messages. A step that does not fit is an
  // OutOfMemory error unless `allow_oversize` (explain shows it all the same).
  int64_t hbm_bytes = INT64_MAX, host_bytes = INT64_MAX;
  std::string device_name = "cpu";
  bool allow_oversize = false;
  bool evaluation = true;  // false: Compiled::evaluate stays empty
};

struct Step {
  Schedule schedule;
  MemoryPlan plan;
};

// One line of the resolved policy: an activation of a layer Program and where it lives.
struct PolicyRow {
  std::string layer;       // the Program's name
  int layers = 0;          // how many blocks run it
  std::string activation;  // its name
  int64_t bytes = 0;       // per layer and micro-batch, auxiliary outputs included
  Strategy strategy = Strategy::kUnset;
  bool needed = false;     // backward reads it (after recomputation); else the strategy is moot
};

struct Compiled {
  Model model;  // as the passes left its Programs: this rank's
  Step train, evaluate;
  std::vector<PolicyRow> policy;
  std::map<std::string, Layout> layouts;  // of every parameter, by full name
  int64_t parameters = 0;  // of the whole model
  int64_t flops = 0;       // model FLOPs of a training step on one device
};

// `model`: from build_llama() and friends, optimizer added. Throws ConfigError and OutOfMemory.
[[nodiscard]] Compiled compile(Model model, const CompileOptions& options, const CostModel& cost);

}  // namespace spillway
