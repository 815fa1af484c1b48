#include "device/cpu/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "program/error.h"

namespace spillway::cpu {
namespace {

constexpr int64_t kPage = int64_t{2} << 20;
constexpr int64_t kSmallPage = 4096;

std::byte* map(int64_t bytes) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    throw OutOfMemory(fmt::format("out of system memory: cannot map {:.3f} GiB: {}",
                                  static_cast<double>(bytes) / (1 << 30), std::strerror(errno)));
  }
  return static_cast<std::byte*>(at);
}

}  // namespace

// mmap aligns to 4 KiB: map a page more and give back both ends.
Pages::Pages(int64_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
  if (bytes_ == 0) return;
  std::byte* raw = map(bytes_ + kPage);
  const int64_t before = (kPage - static_cast<int64_t>(reinterpret_cast<uintptr_t>(raw) % kPage)) % kPage;
  data_ = raw + before;
  if (before > 0) munmap(raw, static_cast<size_t>(before));
  if (before < kPage) munmap(data_ + bytes_, static_cast<size_t>(kPage - before));
  madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);  // a wish: small pages work too
  for (int64_t at = 0; at < bytes_; at += kSmallPage) data_[at] = std::byte{0};
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace spillway::cpu
