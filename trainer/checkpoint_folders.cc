#include "trainer/checkpoint_folders.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "trainer/atomic_file.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_", kPartial = ".partial";

// -1: not the name of a checkpoint.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, step);
  return error == std::errc() && last == end && begin != end ? step : -1;
}

}  // namespace

fs::path checkpoint_folder(const fs::path& directory, int64_t step) {
  return directory / fmt::format("{}{:08}", kPrefix, step);
}

fs::path partial_of(const fs::path& checkpoint) {
  return checkpoint.string() + std::string(kPartial);
}

std::map<int64_t, fs::path> checkpoints_in(const fs::path& directory) {
  std::map<int64_t, fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step >= 0 && entry.is_directory()) found.emplace(step, entry.path());
  }
  return found;
}

void publish_checkpoint(const fs::path& checkpoint) {
  // One of the same step is damaged, or the run would not be here again. It stays until the new is
  // there.
  const fs::path old = partial_of(checkpoint.string() + ".old");
  const bool replaces = fs::exists(checkpoint);
  if (replaces) fs::rename(checkpoint, old);
  fs::rename(partial_of(checkpoint), checkpoint);
  sync_folder(checkpoint.parent_path().string());
  if (replaces) fs::remove_all(old);
}

void remove_partial_checkpoints(const fs::path& directory) {
  std::vector<fs::path> partial;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kPartial)) partial.push_back(entry.path());
  }
  for (const fs::path& folder : partial) fs::remove_all(folder);
}

void remove_old_checkpoints(const CheckpointConfig& config, int64_t newest) {
  if (config.keep == 0) return;
  const std::map<int64_t, fs::path> all = checkpoints_in(config.directory);
  int64_t kept = 0;
  for (auto it = std::make_reverse_iterator(all.upper_bound(newest)); it != all.rend(); ++it) {
    if (kept++ < config.keep) continue;
    if (config.keep_every > 0 && it->first % config.keep_every == 0) continue;
    fs::rename(it->second, partial_of(it->second));  // half removed, it must not look like one
    fs::remove_all(partial_of(it->second));
  }
}

}  // namespace spillway
