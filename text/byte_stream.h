// The bytes of a file, decompressed as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace spillway {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` from its start; less than all of it only at the end, where it is 0. Throws
  // DataError with the file: also on compressed data that are damaged or end too early.
  [[nodiscard]] virtual size_t read(std::span<char> out) = 0;
  // Bytes of the file that have been taken so far, compressed ones where it is.
  [[nodiscard]] virtual int64_t consumed() const = 0;
};

// *.gz is gzip, *.zst zstd (of several members or frames too), others as they are. Throws
// DataError.
[[nodiscard]] std::unique_ptr<ByteStream> open_byte_stream(const std::string& path);

}  // namespace spillway
