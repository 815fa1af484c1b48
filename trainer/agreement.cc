#include "trainer/agreement.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program/error.h"
#include "trainer/config_text.h"
#include "trainer/mix64.h"

namespace spillway {
namespace {

// Of this program's own file: builds that differ may compute different bits.
uint64_t hash_of_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> block(1 << 20);
  uint64_t hash = 0;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    const auto bytes = static_cast<size_t>(file.gcount());
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, block.data() + at, std::min(sizeof(word), bytes - at));
      hash = mix64(hash ^ word);
    }
  }
  return hash;
}

// What ranks must have alike: ops, streams and sizes in order. Attributes may name a rank's own part.
uint64_t hash_of(const Schedule& schedule) {
  uint64_t hash = 0;
  const auto add = [&](auto value) { hash = mix64(hash ^ static_cast<uint64_t>(value)); };
  for (const Instr& instr : schedule.instrs) {
    add(instr.op.kind);
    add(instr.stream);
    for (TensorId id : instr.op.in) add(schedule.buffers[id].bytes());
    for (TensorId id : instr.op.out) add(schedule.buffers[id].bytes());
  }
  return hash;
}

std::string identity(const Config& config, const Compiled& compiled) {
  nlohmann::ordered_json json = {{"version", SPILLWAY_VERSION},
                                 {"program file (hash)", hash_of_program()},
                                 {"config", to_json(config)},
                                 {"training step (hash)", hash_of(compiled.train.schedule)},
                                 {"evaluation (hash)", hash_of(compiled.evaluate.schedule)}};
  json["config"]["device"].erase("threads");
  json["config"]["device"].erase("jitter_seed");
  return json.flatten().dump();
}

}  // namespace

void check_same_on_all_ranks(World& world, const Config& config, const Compiled& compiled) {
  if (world.size() == 1) return;
  const std::vector<std::string> all = all_texts(world, identity(config, compiled));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto first = nlohmann::ordered_json::parse(all[0]);
    const auto other = nlohmann::ordered_json::parse(all[rank]);
    for (const auto& [key, value] : first.items()) {
      const std::string theirs = other.contains(key) ? other[key].dump() : "missing";
      if (theirs == value.dump()) continue;
      throw ConfigError(fmt::format("rank {} does not run what rank 0 runs: {} is {}, not {}", rank,
                                    key.substr(1), theirs, value.dump()));
    }
    throw ConfigError(fmt::format("rank {} does not run what rank 0 runs", rank));
  }
}

}  // namespace spillway
