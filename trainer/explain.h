// `spillway explain`: what a config compiles to, before anything is allocated.
#pragma once

#include <ostream>

#include "trainer/compile.h"

namespace spillway {

struct ExplainOptions {
  bool schedule = false;  // also every instruction
  bool programs = false;  // also every Program
  Mesh mesh;              // that the step was compiled for
  int64_t tokens_per_step = 0;
  int64_t hbm_bytes = 0, host_bytes = 0;  // capacities
  std::string device_name;
};

void explain(std::ostream& out, const Compiled& compiled, const ExplainOptions& options);

}  // namespace spillway
