// A strict reader of one mapping of a YAML file: every key is typed, ranged and accounted for.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/yaml.h"

namespace spillway {

// `train.steps=20` from the command line: a dotted path and a YAML value.
struct YamlOverride {
  std::vector<std::string> path;  // relative to the section that holds it
  YamlNode value;
};
// `file`: where it stands. Throws ConfigError.
[[nodiscard]] YamlOverride parse_override(const std::string& text,
                                          const std::string& file = kCommandLine);

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
inline constexpr IntRange kPositive{.min = 1};
inline constexpr IntRange kNotNegative{.min = 0};

// Finite numbers between min and max; the bounds themselves only where they are not open.
struct RealRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool min_open = false, max_open = false;
};
inline constexpr RealRange kAboveZero{.min = 0, .min_open = true};
inline constexpr RealRange kZeroOrMore{.min = 0};

// Spellings of an enumeration, and back.
template <class E>
using Spelling = std::pair<const char*, E>;
template <class E>
[[nodiscard]] const char* spelling_of(std::span<const Spelling<E>> table, E value) {
  for (const auto& [name, meaning] : table) {
    if (meaning == value) return name;
  }
  return "?";
}

// In place of a default: the key must be there.
inline constexpr std::nullopt_t kRequired = std::nullopt;

// Reads take a key and a default, and throw ConfigError naming file, line, dotted path, value and
// what is legal. A key that is read is a legal key. Once all are read, finish() rejects the rest.
class YamlSection {
 public:
  // `path`: dotted, of the section itself; "" at the top. `node` must be a mapping or empty.
  YamlSection(YamlNode node, std::string path, std::vector<YamlOverride> overrides);

  [[nodiscard]] int64_t integer(const std::string& key, std::optional<int64_t> fallback,
                                IntRange range = {});
  [[nodiscard]] double real(const std::string& key, std::optional<double> fallback,
                            RealRange range = {});
  [[nodiscard]] bool boolean(const std::string& key, std::optional<bool> fallback);
  [[nodiscard]] std::string string(const std::string& key, std::optional<std::string> fallback);
  // One string, or a list of them.
  [[nodiscard]] std::vector<std::string> strings(const std::string& key);
  // A list of rows, each a list of one single value a column; a row comes back as a section whose keys
  // are `columns`. Throws when the key is missing, the list is empty or a row has another length.
  [[nodiscard]] std::vector<YamlSection> rows(const std::string& key,
                                              const std::vector<std::string>& columns);
  template <class E>
  [[nodiscard]] E choice(const std::string& key, std::optional<E> fallback,
                         std::span<const Spelling<E>> legal);

  // A section below this one: a mapping, or the path of a YAML file that holds one, relative to the
  // file that names it (on the command line: to the current directory). Empty when absent.
  [[nodiscard]] YamlSection section(const std::string& key);

  // Whether the key has a value. Makes it a legal key.
  [[nodiscard]] bool has(const std::string& key);
  // Every key there is, in order. Makes none legal.
  [[nodiscard]] std::vector<std::string> keys() const;

  // For rules over several keys: throws ConfigError "FILE:LINE: PATH.KEY WHY".
  [[noreturn]] void fail(const std::string& key, const std::string& why) const;
  // Throws ConfigError on a key that nobody read, with the nearest legal ones.
  void finish() const;

 private:
  [[nodiscard]] std::string dotted(const std::string& key) const;
  // The value at a key, which becomes legal; null when absent. Throws when required and absent.
  const YamlNode* value(const std::string& key, bool required);
  const std::string* scalar(const std::string& key, bool required);
  size_t choice_index(const std::string& key, const std::vector<std::string>& legal);

  YamlNode node_;
  std::string path_;
  std::vector<YamlOverride> below_;  // overrides of sections below, until section() takes them
  std::vector<std::string> legal_;
};

template <class E>
E YamlSection::choice(const std::string& key, std::optional<E> fallback,
                      std::span<const Spelling<E>> legal) {
  if (!value(key, !fallback)) return *fallback;
  std::vector<std::string> names;
  for (const auto& [name, meaning] : legal) names.emplace_back(name);
  return legal[choice_index(key, names)].second;
}

}  // namespace spillway
