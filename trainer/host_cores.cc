#include "trainer/host_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace spillway {

int cores_of_rank(int local_ranks) {
  const auto machine = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int allowed = sched_getaffinity(0, sizeof(bound), &bound) == 0 ? CPU_COUNT(&bound) : machine;
  if (allowed < machine && local_ranks > 1) return std::max(1, allowed);
  return std::max(1, allowed / std::max(1, local_ranks));
}

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "an unknown cpu";
}

}  // namespace spillway
