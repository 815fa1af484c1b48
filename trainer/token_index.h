// What a folder of token shards was made of, and how far it got.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway {

// The first token that is not in the shards so far: of the ids of a document of an input.
struct TokenPlace {
  size_t input = 0;
  int64_t document = 0, token = 0;
};

struct ShardRow {
  std::string file;
  int64_t tokens = 0;
  int64_t documents = 0;  // that end in it
  TokenPlace next;        // behind its last token
};

// In DIR: progress.json while shards are being made, and index.json when all are there. Both hold
// `identity`, which is all that decides the shards' bytes, and a row a shard.
class TokenIndex {
 public:
  // Takes up what DIR holds, as far as its shards are whole. Throws ConfigError when that was made
  // of something else, naming what differs.
  TokenIndex(std::filesystem::path folder, nlohmann::json identity, int64_t vocab_size);

  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const std::vector<ShardRow>& shards() const { return shards_; }
  [[nodiscard]] TokenPlace next() const {
    return shards_.empty() ? TokenPlace{} : shards_.back().next;
  }
  [[nodiscard]] std::string path_of(const std::string& file) const {
    return (folder_ / file).string();
  }
  // Of all shards.
  [[nodiscard]] int64_t tokens() const;
  [[nodiscard]] int64_t documents() const;

  void add(ShardRow row);  // of a shard that is on the disk
  void finish();           // index.json in place of progress.json

 private:
  void take_up(const nlohmann::json& saved, const std::string& path, int64_t vocab_size);
  void write(const char* name) const;

  std::filesystem::path folder_;
  nlohmann::json identity_;
  std::vector<ShardRow> shards_;
  bool complete_ = false;
};

}  // namespace spillway
