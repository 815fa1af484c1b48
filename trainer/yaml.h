// A YAML file as a plain tree in which every value remembers the line it came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

struct YamlEntry;

struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string scalar;              // kScalar, as written, without quotes
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in the order of the file; keys are unique
  std::string file;                // as the user named it
  int line = 0;                    // from 1; 0: not from a file

  [[nodiscard]] std::string where() const;  // "configs/run/llama_tiny.yaml:12"
  [[nodiscard]] const YamlNode* find(const std::string& key) const;  // null when absent
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

// In place of a file name: values that came from the command line.
inline constexpr const char* kCommandLine = "command line";

// One document. Throws ConfigError with file and line on bad syntax, a key that stands twice in a
// mapping, a key that is not a scalar, or a document past sane bounds (size, depth, aliases).
[[nodiscard]] YamlNode load_yaml(const std::filesystem::path& path);
// `file` is only for messages.
[[nodiscard]] YamlNode parse_yaml(const std::string& text, const std::string& file);

}  // namespace spillway
