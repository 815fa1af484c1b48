// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace spillway {

// What has been made, renamed or removed in a folder is safe only once the folder itself is on the disk.
// Some file systems cannot do that: best effort.
void sync_folder(const std::string& folder);

// Writes PATH.partial, which publish() turns into PATH. Dropped unpublished, it leaves nothing.
// Errors are std::runtime_errors that name the file and the cause.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  // the folder must exist
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> data);
  void append(const std::string& text) { append(std::as_bytes(std::span(text))); }
  // Replaces bytes that have been written.
  void overwrite(int64_t offset, std::span<const std::byte> data);
  // Returns when the bytes and the name are on the disk. Nothing may follow.
  void publish();

 private:
  void write_at(int64_t offset, std::span<const std::byte> data);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, partial_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace spillway
