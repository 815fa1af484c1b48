// metrics.jsonl: one JSON object a line.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway {

// Creates a folder that a run writes into, and proves that it can be written. Throws ConfigError naming
// the config's `key`.
void create_output_directory(const std::filesystem::path& directory,
                             const char* key = "output.directory");

// Each record is on its way to the disk when write() returns. A run that starts in a folder with
// records adds to them: its header tells them apart. Once it is open nothing it meets stops the
// training (a full disk, a folder that is gone): it warns once, and tries again with each record.
class MetricsLog {
 public:
  using Warn = std::function<void(const std::string&)>;
  // Opens DIRECTORY/metrics.jsonl; the folder must exist. Throws ConfigError.
  MetricsLog(const std::filesystem::path& directory, Warn warn);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const nlohmann::ordered_json& record);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void warn_once(const std::string& why);

  std::string path_;
  Warn warn_;
  int descriptor_ = -1;
  bool in_line_ = false;  // the file ends in a piece of a line, which the next record must not join
  bool warned_ = false;
};

}  // namespace spillway
