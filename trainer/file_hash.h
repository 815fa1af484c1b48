// Whether a file holds what it held.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct FileStamp {
  int64_t bytes = 0;
  std::string hash;  // XXH3 of 64 bits over all bytes, 16 hexadecimal digits

  bool operator==(const FileStamp&) const = default;
};

[[nodiscard]] std::string hash_of(const std::string& text);
// Reads all of the file. Throws DataError.
[[nodiscard]] FileStamp stamp_of(const std::string& path);

}  // namespace spillway
