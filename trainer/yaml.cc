#include "trainer/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "program/error.h"

namespace spillway {
namespace {

// A config is a page of text. Aliases may name a node many times over (even the one they stand in),
// so the tree is bounded while it is copied.
constexpr int kMaxDepth = 64;
constexpr int kMaxNodes = 100'000;
constexpr std::streamoff kMaxFileBytes = 1 << 20;

class Converter {
 public:
  explicit Converter(std::string file) : file_(std::move(file)) {}

  YamlNode convert(const YAML::Node& from, int depth) {
    YamlNode node;
    node.file = file_;
    node.line = std::max(from.Mark().line, 0) + 1;
    if (++nodes_ > kMaxNodes) fail(node, fmt::format("more than {} values", kMaxNodes));
    if (depth > kMaxDepth) fail(node, fmt::format("nested deeper than {} levels", kMaxDepth));
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        node.kind = YamlNode::Kind::kScalar;
        node.scalar = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = YamlNode::Kind::kList;
        for (const YAML::Node& item : from) node.items.push_back(convert(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        node.kind = YamlNode::Kind::kMap;
        for (const auto& entry : from) add_entry(node, entry.first, entry.second, depth);
        break;
    }
    return node;
  }

 private:
  void add_entry(YamlNode& map, const YAML::Node& key, const YAML::Node& value, int depth) {
    YamlNode name = convert(key, depth + 1);
    if (name.kind != YamlNode::Kind::kScalar) fail(name, "a key must be a plain word");
    if (const YamlNode* first = map.find(name.scalar)) {
      fail(name, fmt::format("key {} stands twice (first on line {})", name.scalar, first->line));
    }
    YamlNode converted = convert(value, depth + 1);
    converted.line = name.line;  // what a reader looks for is the line of the key
    map.entries.push_back({name.scalar, std::move(converted)});
  }

  [[noreturn]] static void fail(const YamlNode& node, const std::string& what) {
    throw ConfigError(node.where() + ": " + what);
  }

  std::string file_;
  int nodes_ = 0;
};

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ConfigError(fmt::format("cannot read {}: it is a folder", path.string()));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw ConfigError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (in.bad()) throw ConfigError(fmt::format("cannot read {}", path.string()));
  if (text.size() > kMaxFileBytes) {
    throw ConfigError(fmt::format("{} is larger than {} bytes: not a configuration", path.string(),
                                  kMaxFileBytes));
  }
  return text;
}

}  // namespace

std::string YamlNode::where() const { return line > 0 ? fmt::format("{}:{}", file, line) : file; }

const YamlNode* YamlNode::find(const std::string& key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode load_yaml(const std::filesystem::path& path) {
  return parse_yaml(read_text(path), path.string());
}

YamlNode parse_yaml(const std::string& text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      throw ConfigError(
          fmt::format("{}: holds {} documents; one is expected", file, documents.size()));
    }
    return Converter(file).convert(documents.empty() ? YAML::Node() : documents.front(), 0);
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}:{}: {}", file, error.mark.line + 1, error.msg));
  }
}

}  // namespace spillway
