// A value inside a JSON file that knows its path, so that every complaint names it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway {

// The value must outlive the node. Everything throws ConfigError: "FILE: PATH: VALUE ...".
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] JsonNode at(const std::string& key) const;  // null where it is missing
  [[nodiscard]] std::vector<JsonNode> items() const;        // of an array
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] int64_t integer(int64_t low, int64_t high) const;
  [[nodiscard]] bool flag(bool otherwise) const;  // `otherwise` where it is null
  [[noreturn]] void refuse(const std::string& legal) const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

// Throws ConfigError on what is no JSON, or nests deeper than any such file.
[[nodiscard]] nlohmann::json parse_json(const std::string& text, const std::string& file);

}  // namespace spillway
