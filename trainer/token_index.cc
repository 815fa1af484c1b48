#include "trainer/token_index.h"

#include <fmt/format.h>

#include <fstream>

#include "program/error.h"
#include "trainer/atomic_file.h"
#include "trainer/shard_source.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr const char* kIndex = "index.json";
constexpr const char* kProgress = "progress.json";

json json_of(const ShardRow& row) {
  return {{"file", row.file},
          {"tokens", row.tokens},
          {"documents", row.documents},
          {"next", {row.next.input, row.next.document, row.next.token}}};
}

ShardRow row_of(const json& saved) {
  const json& next = saved.at("next");
  return {.file = saved.at("file"),
          .tokens = saved.at("tokens"),
          .documents = saved.at("documents"),
          .next = {.input = next.at(0), .document = next.at(1), .token = next.at(2)}};
}

// Whether the shard is there as the row says.
bool is_whole(const std::string& path, const ShardRow& row, int64_t vocab_size) {
  try {
    return ShardSource(path, vocab_size).size() == row.tokens;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

TokenIndex::TokenIndex(std::filesystem::path folder, json identity, int64_t vocab_size)
    : folder_(std::move(folder)), identity_(std::move(identity)) {
  std::filesystem::create_directories(folder_);
  for (const char* name : {kIndex, kProgress}) {
    const std::string path = path_of(name);
    std::ifstream in(path, std::ios::binary);
    if (!in) continue;
    size_t listed = 0;
    try {
      const json saved = json::parse(in);
      listed = saved.at("shards").size();
      take_up(saved, path, vocab_size);
    } catch (const json::exception& error) {
      throw ConfigError(fmt::format("{}: {}", path, error.what()));
    }
    complete_ = name == kIndex && shards_.size() == listed;
    return;
  }
}

void TokenIndex::take_up(const json& saved, const std::string& path, int64_t vocab_size) {
  for (const auto& [key, value] : identity_.items()) {
    const json before = saved.value(key, json());
    if (before == value) continue;
    throw ConfigError(
        fmt::format("{}: its shards were made with {} {}, not {}; name another folder, or "
                    "delete this one",
                    path, key, before.dump(), value.dump()));
  }
  for (const json& row : saved.at("shards")) {
    ShardRow shard = row_of(row);
    if (!is_whole(path_of(shard.file), shard, vocab_size)) break;
    shards_.push_back(std::move(shard));
  }
}

int64_t TokenIndex::tokens() const {
  int64_t sum = 0;
  for (const ShardRow& row : shards_) sum += row.tokens;
  return sum;
}

int64_t TokenIndex::documents() const {
  int64_t sum = 0;
  for (const ShardRow& row : shards_) sum += row.documents;
  return sum;
}

void TokenIndex::add(ShardRow row) {
  shards_.push_back(std::move(row));
  write(kProgress);
}

void TokenIndex::finish() {
  write(kIndex);
  std::filesystem::remove(folder_ / kProgress);
  complete_ = true;
}

void TokenIndex::write(const char* name) const {
  json all = identity_;
  all["documents"] = documents();
  all["tokens"] = tokens();
  all["shards"] = json::array();
  for (const ShardRow& row : shards_) all["shards"].push_back(json_of(row));
  AtomicFile file(path_of(name));
  file.append(all.dump(1) + "\n");
  file.publish();
}

}  // namespace spillway
