#include "trainer/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "program/error.h"

namespace spillway {
namespace {

// A config is a page of text. An alias stands for a copy of a value that may itself hold aliases, so
// what is copied counts.
constexpr size_t kMaxDepth = 64;
constexpr int kMaxNodes = 100'000;
constexpr std::streamoff kMaxFileBytes = 1 << 20;

int count_nodes(const YamlNode& node) {
  int count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const YamlEntry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

// Builds the tree of one document from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) fail(node_at(mark), "text behind the end of the first document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(mark), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = node_at(mark);
    node.kind = YamlNode::Kind::kScalar;
    node.scalar = value;
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(node_at(mark), "an alias inside the value it stands for");
    count(found->second);
    add(found->second, YAML::NullAnchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kList, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor;
    std::optional<YamlNode> key;  // of a map: read, and its value not yet
  };

  [[nodiscard]] YamlNode node_at(const YAML::Mark& mark) const {
    YamlNode node;
    node.file = file_;
    node.line = std::max(mark.line, 0) + 1;
    return node;
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind, YAML::anchor_t anchor) {
    YamlNode node = node_at(mark);
    node.kind = kind;
    if (open_.size() == kMaxDepth)
      fail(node, fmt::format("nested deeper than {} levels", kMaxDepth));
    open_.push_back({std::move(node), anchor, {}});
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(std::move(closed.node), closed.anchor);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    if (++nodes_ > kMaxNodes) fail(node, fmt::format("more than {} values", kMaxNodes));
    if (anchor != YAML::NullAnchor) {
      count(node);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (open_.back().node.kind == YamlNode::Kind::kList) {
      open_.back().node.items.push_back(std::move(node));
    } else if (!open_.back().key) {
      check_key(open_.back().node, node);
      open_.back().key = std::move(node);
    } else {
      node.line = open_.back().key->line;  // what a reader looks for is the line of the key
      open_.back().node.entries.push_back({open_.back().key->scalar, std::move(node)});
      open_.back().key.reset();
    }
  }

  static void check_key(const YamlNode& map, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::kScalar) fail(key, "a key must be a plain word");
    if (const YamlNode* first = map.find(key.scalar)) {
      fail(key, fmt::format("key {} stands twice (first on line {})", key.scalar, first->line));
    }
  }

  void count(const YamlNode& copied) {
    nodes_ += count_nodes(copied);
    if (nodes_ > kMaxNodes) fail(copied, fmt::format("more than {} values", kMaxNodes));
  }

  [[noreturn]] static void fail(const YamlNode& node, const std::string& what) {
    throw ConfigError(fmt::format("{}: {}", node.where(), what));
  }

  std::string file_;
  int documents_ = 0, nodes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;  // of values that are complete
  YamlNode root_;
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
  TreeBuilder tree(file);
  try {
    // Not YAML::LoadAll: on a stray comma it makes empty documents for ever.
    std::istringstream in(text);
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(tree)) {
    }
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}:{}: {}", file, std::max(error.mark.line, 0) + 1, error.msg));
  }
  YamlNode root = tree.take();
  root.file = file;
  root.line = std::max(root.line, 1);
  return root;
}

}  // namespace spillway
