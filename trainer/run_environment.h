// Where a run ran: what one needs to understand its numbers a year later.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/world.h"

namespace spillway {

struct RunEnvironment {
  std::string engine;  // how ranks talk
  std::vector<std::string> hosts;  // one a rank
  std::vector<int> cores;          // that each rank may use
  // Of rank 0: what is set of OMP_*, NCCL_*, UCX_*, CUDA_VISIBLE_DEVICES and, of the launchers', what
  // says how the job was laid out.
  std::map<std::string, std::string> variables;
};

// All ranks call it together.
[[nodiscard]] RunEnvironment run_environment(World& world);
[[nodiscard]] nlohmann::ordered_json to_json(const RunEnvironment& environment);

}  // namespace spillway
