#include "trainer/file_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "trainer/input_file.h"

namespace spillway {

std::string hash_of(const std::string& text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

FileStamp stamp_of(const std::string& path) {
  constexpr int64_t kBlock = int64_t{4} << 20;
  const InputFile file(path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> block(static_cast<size_t>(std::min(kBlock, file.size())));
  for (int64_t at = 0; at < file.size(); at += kBlock) {
    const auto part = std::span(block).first(
        static_cast<size_t>(std::min(kBlock, file.size() - at)));
    file.read(at, part);
    XXH3_64bits_update(state.get(), part.data(), part.size());
  }
  return {file.size(), fmt::format("{:016x}", XXH3_64bits_digest(state.get()))};
}

}  // namespace spillway
