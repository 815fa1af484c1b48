#include "trainer/run_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "trainer/host_cores.h"

namespace spillway {
namespace {

// What people set; launchers add many more that tell nothing a year later.
constexpr std::array<std::string_view, 15> kPrefixes = {
    "OMP_",         "OMPI_MCA_btl",   "OMPI_MCA_pml",        "OMPI_MCA_mpi_",
    "OMPI_MCA_rmaps_base_", "OMPI_MCA_hwloc_base_binding", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_JOB_PARTITION", "SLURM_CPU_BIND",
    "NCCL_",        "UCX_",           "CUDA_VISIBLE_DEVICES"};

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::map<std::string, std::string> variables() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const auto starts = [&](std::string_view prefix) { return text.starts_with(prefix); };
    if (std::ranges::any_of(kPrefixes, starts)) {
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return found;
}

}  // namespace

RunEnvironment run_environment(World& world) {
  RunEnvironment environment{.engine = world.engine(), .variables = variables()};
  const std::string mine = std::to_string(cores_of_rank(world.local_size())) + " " + host_name();
  for (const std::string& text : all_texts(world, mine)) {
    const size_t space = text.find(' ');
    environment.cores.push_back(std::stoi(text.substr(0, space)));
    environment.hosts.push_back(text.substr(space + 1));
  }
  return environment;
}

nlohmann::ordered_json to_json(const RunEnvironment& environment) {
  return {{"engine", environment.engine},
          {"hosts", environment.hosts},
          {"cores", environment.cores},
          {"variables", environment.variables}};
}

}  // namespace spillway
