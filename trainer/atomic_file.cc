#include "trainer/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace spillway {

void sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  close(descriptor);
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), partial_(fmt::format("{}.partial", path_)) {
  descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_.c_str());
}

void AtomicFile::append(std::span<const std::byte> data) {
  write_at(size_, data);
  size_ += static_cast<int64_t>(data.size());
}

void AtomicFile::overwrite(int64_t offset, std::span<const std::byte> data) {
  write_at(offset, data);
}

void AtomicFile::publish() {
  if (fsync(descriptor_) != 0) fail("write");
  if (rename(partial_.c_str(), path_.c_str()) != 0) fail("rename");
  close(descriptor_);
  descriptor_ = -1;
  sync_folder(std::filesystem::absolute(path_).parent_path().string());
}

void AtomicFile::write_at(int64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put = pwrite(descriptor_, data.data(), data.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write");
    data = data.subspan(static_cast<size_t>(put));
    offset += put;
  }
}

void AtomicFile::fail(const char* what) const {
  throw std::runtime_error(fmt::format("cannot {} {}: {}", what, partial_, std::strerror(errno)));
}

}  // namespace spillway
