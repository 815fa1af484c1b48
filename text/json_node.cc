#include "text/json_node.h"

#include <fmt/format.h>

#include "program/error.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kDepth = 32;
constexpr size_t kShownBytes = 80;

// The beginning of a value; a large one is not written out first.
std::string shown(const json& value) {
  if (value.is_structured() && value.size() > 8) {
    return fmt::format("{} of {}", value.type_name(), value.size());
  }
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

JsonNode JsonNode::at(const std::string& key) const {
  static const json missing;
  const std::string path = path_.empty() ? key : fmt::format("{}.{}", path_, key);
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  return {found == value_->end() ? missing : *found, file_, path};
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) refuse("an array");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const json& item : *value_) {
    nodes.emplace_back(item, file_, fmt::format("{}[{}]", path_, nodes.size()));
  }
  return nodes;
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get_ref<const std::string&>();
}

int64_t JsonNode::integer(int64_t low, int64_t high) const {
  const bool fits = value_->is_number_integer() && *value_ >= low && *value_ <= high;
  if (!fits) refuse(fmt::format("a whole number in [{}, {}]", low, high));
  return value_->get<int64_t>();
}

bool JsonNode::flag(bool otherwise) const {
  if (value_->is_null()) return otherwise;
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

void JsonNode::refuse(const std::string& legal) const {
  throw ConfigError(fmt::format("{}: {}: {} must be {}", file_, path_.empty() ? "the file" : path_,
                                shown(*value_), legal));
}

json parse_json(const std::string& text, const std::string& file) {
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDepth) throw ConfigError(fmt::format("{}: nested deeper than {}", file, kDepth));
    return true;
  };
  try {
    return json::parse(text, shallow);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace spillway
