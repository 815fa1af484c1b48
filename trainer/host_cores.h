// The cores that a rank may use, and what they are.
#pragma once

#include <string>

namespace spillway {

// The cores that the launcher bound this process to; when it is bound to none in particular, its share
// of the machine's among `local_ranks`. At least 1.
[[nodiscard]] int cores_of_rank(int local_ranks);

// What /proc/cpuinfo calls the first core; "an unknown cpu" where it says nothing.
[[nodiscard]] std::string cpu_model();

}  // namespace spillway
