#include "trainer/yaml_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "program/error.h"

namespace spillway {
namespace {

// Decimal digits only: no octal, no hex, and 1e6 is a real number, not a count.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string describe(const IntRange& range) {
  constexpr IntRange all;
  if (range.max == all.max) return fmt::format("must be at least {}", range.min);
  if (range.min == all.min) return fmt::format("must be at most {}", range.max);
  return fmt::format("must be in [{}, {}]", range.min, range.max);
}

std::string describe(const RealRange& range) {
  constexpr RealRange all;
  if (range.max == all.max && range.min == all.min) return "must be a finite number";
  if (range.max == all.max) {
    return fmt::format("must be {} {}", range.min_open ? "greater than" : "at least", range.min);
  }
  return fmt::format("must be in {}{}, {}{}", range.min_open ? '(' : '[', range.min, range.max,
                     range.max_open ? ')' : ']');
}

void forget_lines(YamlNode& node) {
  node.line = 0;
  for (YamlNode& item : node.items) forget_lines(item);
  for (YamlEntry& entry : node.entries) forget_lines(entry.value);
}

bool contains(const RealRange& range, double x) {
  return std::isfinite(x) && (range.min_open ? x > range.min : x >= range.min) &&
         (range.max_open ? x < range.max : x <= range.max);
}

}  // namespace

YamlOverride parse_override(const std::string& text, const std::string& file) {
  const size_t equals = text.find('=');
  YamlOverride result;
  size_t begin = 0;
  while (equals != std::string::npos && begin <= equals) {
    const size_t end = std::min(text.find('.', begin), equals);
    result.path.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (result.path.empty() || std::ranges::count(result.path, "") > 0) {
    throw ConfigError(fmt::format("{}: \"{}\" is not section.key=value, as in train.steps=20",
                                  file, text));
  }
  result.value = parse_yaml(text.substr(equals + 1), file);
  forget_lines(result.value);
  return result;
}

YamlSection::YamlSection(YamlNode node, std::string path, std::vector<YamlOverride> overrides)
    : node_(std::move(node)), path_(std::move(path)) {
  if (node_.kind == YamlNode::Kind::kNull) node_.kind = YamlNode::Kind::kMap;
  if (node_.kind != YamlNode::Kind::kMap) {
    throw ConfigError(fmt::format("{}: {} must be a mapping of keys to values", node_.where(),
                                  path_.empty() ? "a configuration" : path_));
  }
  for (YamlOverride& override : overrides) {
    if (override.path.size() > 1) {
      below_.push_back(std::move(override));
      continue;
    }
    std::erase_if(node_.entries,
                  [&](const YamlEntry& entry) { return entry.key == override.path.front(); });
    node_.entries.push_back({override.path.front(), std::move(override.value)});
  }
}

int64_t YamlSection::integer(const std::string& key, std::optional<int64_t> fallback,
                             IntRange range) {
  const std::string* text = scalar(key, !fallback);
  if (!text) return *fallback;
  const std::optional<int64_t> number = parse_number<int64_t>(*text);
  if (!number) {
    fail(key, fmt::format("is {}; must be a whole number below 2^63 in decimal digits, as in "
                          "1000000",
                          *text));
  }
  if (*number < range.min || *number > range.max) {
    fail(key, fmt::format("is {}; {}", *number, describe(range)));
  }
  return *number;
}

double YamlSection::real(const std::string& key, std::optional<double> fallback, RealRange range) {
  const std::string* text = scalar(key, !fallback);
  if (!text) return *fallback;
  const std::optional<double> number = parse_number<double>(*text);
  if (!number) fail(key, fmt::format("is {}; must be a number, as in 0.1 or 3e-4", *text));
  if (!contains(range, *number)) fail(key, fmt::format("is {}; {}", *text, describe(range)));
  return *number;
}

bool YamlSection::boolean(const std::string& key, std::optional<bool> fallback) {
  const std::string* text = scalar(key, !fallback);
  if (!text) return *fallback;
  bool value = false;
  if (!YAML::convert<bool>::decode(YAML::Node(*text), value)) {
    fail(key, fmt::format("is {}; must be true or false", *text));
  }
  return value;
}

std::string YamlSection::string(const std::string& key, std::optional<std::string> fallback) {
  const std::string* text = scalar(key, !fallback);
  return text ? *text : *fallback;
}

std::vector<std::string> YamlSection::strings(const std::string& key) {
  const YamlNode* node = value(key, false);
  if (!node) return {};
  if (node->kind == YamlNode::Kind::kScalar) return {node->scalar};
  std::vector<std::string> result;
  for (const YamlNode& item : node->items) {
    if (item.kind == YamlNode::Kind::kScalar) result.push_back(item.scalar);
  }
  if (result.empty() || result.size() != node->items.size()) {
    fail(key, "must be a string or a list of strings");
  }
  return result;
}

std::vector<YamlSection> YamlSection::rows(const std::string& key,
                                           const std::vector<std::string>& columns) {
  const YamlNode* node = value(key, true);
  if (node->items.empty()) {
    fail(key, fmt::format("must be a list of rows [{}], one at least", fmt::join(columns, ", ")));
  }
  std::vector<YamlSection> result;
  for (const YamlNode& item : node->items) {
    const std::string path = fmt::format("{}[{}]", dotted(key), result.size());
    if (item.items.size() != columns.size()) {
      throw ConfigError(fmt::format("{}: {} has {} values; must have {}: {}", item.where(), path,
                                    item.items.size(), columns.size(), fmt::join(columns, ", ")));
    }
    YamlNode row{.kind = YamlNode::Kind::kMap, .file = item.file, .line = item.line};
    for (size_t i = 0; i < columns.size(); ++i) row.entries.push_back({columns[i], item.items[i]});
    result.emplace_back(std::move(row), path, std::vector<YamlOverride>{});
  }
  return result;
}

size_t YamlSection::choice_index(const std::string& key, const std::vector<std::string>& legal) {
  const std::string* text = scalar(key, true);
  const auto found = std::ranges::find(legal, *text);
  if (found == legal.end()) {
    fail(key, fmt::format("is {}{}; must be one of: {}", *text, did_you_mean(*text, legal),
                          fmt::join(legal, ", ")));
  }
  return static_cast<size_t>(found - legal.begin());
}

YamlSection YamlSection::section(const std::string& key) {
  const YamlNode* named = value(key, false);
  YamlNode node;
  node.file = node_.file;
  node.line = node_.line;
  if (named && named->kind == YamlNode::Kind::kScalar) {
    std::filesystem::path file = named->scalar;
    if (named->file != kCommandLine) {
      file = (std::filesystem::path(named->file).parent_path() / file).lexically_normal();
    }
    std::error_code error;
    if (!std::filesystem::exists(file, error)) {
      fail(key, fmt::format("is {}; must be a mapping, or the path of a YAML file ({} does not "
                            "exist)",
                            named->scalar, file.string()));
    }
    node = load_yaml(file);
  } else if (named) {
    node = *named;
  }

  std::vector<YamlOverride> overrides;
  for (YamlOverride& override : below_) {
    if (override.path.front() != key) continue;
    override.path.erase(override.path.begin());
    overrides.push_back(std::move(override));
    override.path.clear();
  }
  std::erase_if(below_, [](const YamlOverride& override) { return override.path.empty(); });
  return {std::move(node), dotted(key), std::move(overrides)};
}

bool YamlSection::has(const std::string& key) {
  const YamlNode* node = value(key, false);
  return node && node->kind != YamlNode::Kind::kNull;
}

std::vector<std::string> YamlSection::keys() const {
  std::vector<std::string> result;
  for (const YamlEntry& entry : node_.entries) result.push_back(entry.key);
  return result;
}

void YamlSection::fail(const std::string& key, const std::string& why) const {
  const YamlNode* node = node_.find(key);
  throw ConfigError(fmt::format("{}: {} {}", (node ? *node : node_).where(), dotted(key), why));
}

void YamlSection::finish() const {
  const auto reject = [&](const std::string& where, const std::string& key) {
    throw ConfigError(fmt::format("{}: {} is not a key{}; legal: {}", where, dotted(key),
                                  did_you_mean(key, legal_), fmt::join(legal_, ", ")));
  };
  for (const YamlEntry& entry : node_.entries) {
    if (std::ranges::count(legal_, entry.key) == 0) reject(entry.value.where(), entry.key);
  }
  for (const YamlOverride& override : below_) {
    const std::string& key = override.path.front();
    if (std::ranges::count(legal_, key) == 0) reject(override.value.file, key);
    throw ConfigError(fmt::format("{}: {}.{} does not exist: {} holds one value", override.value.file,
                                  dotted(key), override.path[1], dotted(key)));
  }
}

std::string YamlSection::dotted(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const YamlNode* YamlSection::value(const std::string& key, bool required) {
  if (std::ranges::count(legal_, key) == 0) legal_.push_back(key);
  const YamlNode* node = node_.find(key);
  if (node || !required) return node;
  std::string misspelt;
  for (const YamlEntry& entry : node_.entries) {
    if (std::ranges::count(legal_, entry.key) > 0 || did_you_mean(entry.key, {key}).empty())
      continue;
    misspelt = fmt::format(" (but {} is there: {})", dotted(entry.key), entry.value.where());
  }
  fail(key, "is missing" + misspelt);
}

const std::string* YamlSection::scalar(const std::string& key, bool required) {
  const YamlNode* node = value(key, required);
  if (!node) return nullptr;
  if (node->kind == YamlNode::Kind::kNull) fail(key, "has no value");
  if (node->kind != YamlNode::Kind::kScalar) fail(key, "must be a single value");
  return &node->scalar;
}

}  // namespace spillway
