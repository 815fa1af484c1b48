// The safetensors file format: named tensors behind a JSON header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/tensor.h"

namespace spillway {

enum class SafeDType : uint8_t { kF32, kBF16, kF16, kI32, kI64, kU8, kF8E4M3 };
[[nodiscard]] std::string_view name_of(SafeDType dtype);  // "F32", ..., "F8_E4M3"
[[nodiscard]] int64_t size_of(SafeDType dtype);           // bytes of one element

// A tensor in a file or on its way into one. The bytes are little-endian, row-major, somebody
// else's, and in files by other writers not aligned to their type.
struct SafeTensor {
  std::string name;
  SafeDType dtype = SafeDType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

// A file, mapped. The header is checked against the file before anything is taken from it: tensors
// lie inside, do not overlap, leave no gap, and have the bytes that shape and dtype ask for. Memory
// is allocated in proportion to the header that is there, never to a number in it. Nobody may
// shorten the file while it is open.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // throws DataError
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  // In the order of the file. Their bytes live as long as this object.
  [[nodiscard]] const std::vector<SafeTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const SafeTensor* find(const std::string& name) const;  // null when absent
  // Throws DataError with the nearest names there are.
  [[nodiscard]] const SafeTensor& at(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void parse(std::span<const std::byte> file);

  std::string path_;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

// Writes the tensors, wide types first so that each is aligned to its type. The file appears whole or
// not at all. Throws VerifyError on tensors that contradict themselves, std::runtime_error when the
// file cannot be written.
void write_safetensors(const std::string& path, std::vector<SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace spillway
