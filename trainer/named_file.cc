#include "trainer/named_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "program/error.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Every configs/ there is, nearest first.
std::vector<fs::path> config_folders(const fs::path& beside) {
  std::vector<fs::path> result;
  std::error_code error;
  const auto add = [&](const fs::path& below) {
    if (fs::is_directory(below / "configs", error)) result.push_back(below / "configs");
  };
  const auto add_above = [&](fs::path folder) {
    while (!folder.empty()) {
      add(folder);
      add(folder / "share" / "spillway");
      if (folder == folder.parent_path()) break;
      folder = folder.parent_path();
    }
  };
  if (!beside.empty()) add_above(fs::absolute(beside, error).lexically_normal());
  add("");
  add_above(fs::read_symlink("/proc/self/exe", error).parent_path());
  return result;
}

}  // namespace

fs::path named_file(const NamedFiles& files, const std::string& name, const fs::path& beside) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) return name;
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::path& folder : config_folders(beside)) {
    const auto file_of = [&](const std::string& stem) {
      return folder / (files.prefix + stem + files.suffix);
    };
    if (fs::is_regular_file(file_of(name), error)) return file_of(name);
    for (const auto& entry : fs::directory_iterator(folder / files.prefix, error)) {
      const std::string stem = entry.path().stem().string();
      if (fs::is_regular_file(file_of(stem), error)) names.push_back(stem);
    }
  }
  if (names.empty()) {
    throw ConfigError(fmt::format("{} {}: there is no configs/{}NAME{} here or beside the program; give "
                                  "the path of a YAML file",
                                  files.what, name, files.prefix, files.suffix));
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  throw ConfigError(fmt::format("{} {} is not known{}; there are: {} (or give the path of a YAML file)",
                                files.what, name, did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace spillway
