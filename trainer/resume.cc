#include "trainer/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "program/error.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_folders.h"
#include "trainer/config_text.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Warn = std::function<void(const std::string&)>;

// Of the model: what changes neither its state nor what it computes from tokens.
const std::set<std::string> kFreeModelKeys{
    "/model/initializer_range", "/model/seq_aux_loss",     "/model/router_z_loss",
    "/model/capacity_factor",   "/model/balanced_routing", "/model/mtp_loss_weight"};

bool fixes_state(const std::string& key, const Config& config) {
  if (key.starts_with("/model/")) return !kFreeModelKeys.contains(key);
  if (key == "/precision/master") return config.precision.compute != DType::kF32;
  return key == "/precision/compute" || key == "/precision/moments";
}

bool orders_data(const std::string& key) {
  return key.starts_with("/data/") || key == "/train/seed" || key == "/train/seq_len";
}

// "model.hidden_size is 64; the checkpoint's is 32", of the keys that both have.
std::vector<std::string> differences(const Config& config, const Json& stored,
                                     const std::function<bool(const std::string&)>& matters) {
  const Json here = to_json(config).flatten(), there = stored.flatten();
  std::vector<std::string> found;
  for (const auto& [key, value] : here.items()) {
    if (!matters(key) || !there.contains(key) || there[key] == value) continue;
    std::string dotted = key.substr(1);
    std::ranges::replace(dotted, '/', '.');
    found.push_back(
        fmt::format("{} is {}; the checkpoint's is {}", dotted, value.dump(), there[key].dump()));
  }
  return found;
}

void check_fits(const Config& config, const Resume& resume, const Warn& warn) {
  const std::string name = resume.checkpoint.string();
  const std::vector<std::string> contradictions =
      differences(config, resume.manifest.config,
                  [&](const std::string& key) { return fixes_state(key, config); });
  if (!contradictions.empty()) {
    throw ConfigError(fmt::format("checkpoint {} is of another model: {}", name,
                                  fmt::join(contradictions, "; ")));
  }
  const std::string state = state_difference(resume.manifest, state_of(build_model(config)));
  if (!state.empty()) {
    throw ConfigError(fmt::format("checkpoint {} is of another model: {}", name, state));
  }
  const std::vector<std::string> data = differences(config, resume.manifest.config, orders_data);
  if (data.empty()) return;
  warn(fmt::format("warning: {}: so it is another order of sequences that goes on at sequence {}",
                   fmt::join(data, "; "), resume.manifest.position));
}

// Checkpoints that are not on the way of this run would later be taken for its own.
void check_not_mixed(const Config& config, int64_t step) {
  if (config.checkpoint.every == 0) return;
  const std::map<int64_t, fs::path> there = checkpoints_in(config.checkpoint.directory);
  if (there.empty() || there.rbegin()->first <= step) return;
  throw ConfigError(fmt::format(
      "checkpoint.resume is {}, but checkpoint.directory {} holds {}, which this run has not made; "
      "move it away, give another directory, or resume: auto",
      config.checkpoint.resume, config.checkpoint.directory,
      there.rbegin()->second.filename().string()));
}

std::optional<Resume> newest(const Config& config, World& world, const Warn& warn) {
  // As rank 0 sees the folder.
  Json seen = Json::array();
  if (world.rank() == 0) {
    for (const auto& [step, folder] : checkpoints_in(config.checkpoint.directory)) {
      seen.push_back(folder.string());
    }
  }
  seen = Json::parse(all_texts(world, seen.dump()).front());
  for (auto folder = seen.rbegin(); folder != seen.rend(); ++folder) {
    Resume resume{folder->get<std::string>(), {}};
    const std::string damage = damage_of(resume.checkpoint, world, resume.manifest);
    if (damage.empty()) return resume;
    warn(fmt::format("warning: checkpoint {} is damaged and passed over: {}",
                     resume.checkpoint.string(), damage));
  }
  if (seen.empty()) return std::nullopt;
  throw DataError(fmt::format("every checkpoint in {} is damaged; move them away to begin at step 0",
                              config.checkpoint.directory));
}

// Or they would talk past each other here, before check_same_on_all_ranks has its turn.
void check_same_question(const Config& config, World& world) {
  const CheckpointConfig& mine = config.checkpoint;
  const std::vector<std::string> all = all_texts(
      world, fmt::format("checkpoint.resume {}, checkpoint.directory {}, checkpoint.every {}",
                         mine.resume, mine.directory, mine.every));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw ConfigError(fmt::format("rank {} does not run what rank 0 runs: it has {}, not {}", rank,
                                  all[rank], all[0]));
  }
}

std::optional<Resume> chosen(const Config& config, World& world, const Warn& warn) {
  check_same_question(config, world);
  const std::string& asked = config.checkpoint.resume;
  if (asked == "auto") return newest(config, world, warn);
  if (asked == "none") {
    check_not_mixed(config, -1);
    return std::nullopt;
  }
  Resume resume{asked, {}};
  const std::string damage = damage_of(resume.checkpoint, world, resume.manifest);
  if (!damage.empty()) {
    throw DataError(fmt::format("checkpoint.resume {} is no whole checkpoint: {}", asked, damage));
  }
  check_not_mixed(config, resume.manifest.step);
  return resume;
}

}  // namespace

std::optional<Resume> find_resume(const Config& config, World& world, const Warn& warn) {
  std::optional<Resume> resume = chosen(config, world, warn);
  if (resume) check_fits(config, *resume, warn);
  return resume;
}

}  // namespace spillway
