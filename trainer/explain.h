// `spillway explain`: what a config compiles to, before anything is allocated.
#pragma once

#include <ostream>

#include "trainer/compile.h"

namespace spillway {

struct ExplainOptions {
  bool schedule = false;  // also every instruction
  bool programs = false;  // also every Program
  int64_t devices = 0;    // > 0: also model states and kept activations if states were sharded over these
  int64_t tokens_per_step = 0;
  int64_t hbm_bytes = 0, host_bytes = 0;  // capacities
  std::string device_name;
};

void explain(std::ostream& out, const Compiled& compiled, const ExplainOptions& options);

}  // namespace spillway
