// Finds out how this process was started, and joins the other ranks.
#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "parallel/world.h"
#include "program/error.h"

namespace spillway {
namespace {

constexpr const char* kPlugin = "libspillway_mpi.so";
constexpr const char* kMakePlugin = "spillway_mpi_world";

struct Launcher {
  const char* name = nullptr;  // nullptr: started by hand
  int ranks = 1;               // 0: it does not say
};

// Its first match is right where launchers run inside one another, as mpirun does in a Slurm job,
// where the variables of srun speak of the daemons.
Launcher find_launcher() {
  struct Sign {
    const char *name, *size, *also;
  };
  static constexpr Sign kSigns[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", nullptr},
                                    {"an mpiexec or srun with PMI", "PMI_SIZE", nullptr},
                                    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                    {"a launcher with PMIx", nullptr, "PMIX_RANK"}};
  for (const auto& [name, size, also] : kSigns) {
    const char* text = size == nullptr ? "0" : std::getenv(size);
    if (text == nullptr || (also != nullptr && std::getenv(also) == nullptr)) continue;
    int ranks = 0;
    const char* end = text + std::string_view(text).size();
    const auto [stop, error] = std::from_chars(text, end, ranks);
    if (error != std::errc() || stop != end || ranks < 0) {
      throw ConfigError(fmt::format("environment: {}={} is not a number of ranks", size, text));
    }
    return {name, ranks};
  }
  return {};
}

std::string ranks_text(const Launcher& launcher) {
  return launcher.ranks == 0 ? "several processes" : fmt::format("{} processes", launcher.ranks);
}

// The plugin beside the program, or where an installation has it. Throws ConfigError.
std::filesystem::path find_plugin(const Launcher& launcher) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place : {folder, folder.parent_path() / "lib"}) {
    if (std::filesystem::exists(place / kPlugin)) return place / kPlugin;
  }
  throw ConfigError(fmt::format(
      "{} started {}, but this program was built without MPI: there is no {} in {} or {}. Install "
      "libopenmpi-dev and openmpi-bin (scripts/install does) and build again from "
      "`cmake --preset release` on, or start one process",
      launcher.name, ranks_text(launcher), kPlugin, folder.string(),
      (folder.parent_path() / "lib").string()));
}

std::unique_ptr<World> load_world(const std::filesystem::path& plugin, double timeout_s) {
  // Never closed: MPI leaves handlers behind. Global: MPI's own plugins look for its symbols.
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw ConfigError(fmt::format("cannot load {}: {}. Is MPI installed (openmpi-bin)?",
                                  plugin.string(), dlerror()));
  }
  using MakeWorld = World* (*)(double);
  const auto make = reinterpret_cast<MakeWorld>(dlsym(library, kMakePlugin));
  if (make == nullptr) {
    throw ConfigError(fmt::format("{} is of another version: no {}", plugin.string(), kMakePlugin));
  }
  return std::unique_ptr<World>(make(timeout_s));
}

}  // namespace

std::unique_ptr<World> join_world(double timeout_s) {
  const Launcher launcher = find_launcher();
  if (launcher.name == nullptr || launcher.ranks == 1) return solo_world();
  std::unique_ptr<World> world = load_world(find_plugin(launcher), timeout_s);
  // Without the launcher's protocol each process believes that it is alone.
  if (launcher.ranks != 0 && world->size() != launcher.ranks) {
    throw ConfigError(fmt::format(
        "{} started {} processes, but MPI ({}) sees {}: they do not understand each other. Use the "
        "mpirun of that MPI (scripts/launch_mpirun), or `srun --mpi=pmix`",
        launcher.name, launcher.ranks, world->engine(), world->size()));
  }
  return world;
}

}  // namespace spillway
