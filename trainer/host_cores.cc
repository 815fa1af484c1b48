#include "trainer/host_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace spillway {

int cores_of_rank(int local_ranks) {
  const auto machine = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int allowed = sched_getaffinity(0, sizeof(bound), &bound) == 0 ? CPU_COUNT(&bound) : machine;
  if (allowed < machine && local_ranks > 1) return std::max(1, allowed);
  return std::max(1, allowed / std::max(1, local_ranks));
}

}  // namespace spillway
