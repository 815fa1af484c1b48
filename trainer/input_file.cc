#include "trainer/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "program/error.h"

namespace spillway {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  std::string why;
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    why = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    why = "not a regular file";
  }
  if (!why.empty()) {
    if (descriptor_ >= 0) close(descriptor_);
    throw DataError(fmt::format("cannot read {}: {}", path_, why));
  }
  size_ = status.st_size;
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DataError(fmt::format("{} at byte {}: {}", path_, offset, std::strerror(errno)));
    }
    if (got == 0) {
      throw DataError(
          fmt::format("{} ends at byte {}; {} more bytes are expected (it had {} when it "
                      "was opened)",
                      path_, offset, out.size(), size_));
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

}  // namespace spillway
