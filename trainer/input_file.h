// A file read by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace spillway {

// Reads may come from several threads at once. Errors are DataErrors that name the file.
class InputFile {
 public:
  explicit InputFile(std::string path);  // throws when the file cannot be opened
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }  // bytes, when it was opened
  // Fills `out` from byte `offset` on, or throws: also when the file has become shorter.
  void read(int64_t offset, std::span<std::byte> out) const;
  // For mmap.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace spillway
