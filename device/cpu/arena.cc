#include "device/cpu/arena.h"

#include <fmt/format.h>

#include <cstring>

#include "program/error.h"

namespace spillway::cpu {

void Arena::allocate(int64_t bytes, bool poison) {
  if (bytes_ != 0) {
    throw VerifyError(fmt::format("the {} arena is allocated already", name_of(space_)));
  }
  pages_ = Pages(bytes);
  bytes_ = bytes;
  if (poison && bytes > 0) std::memset(pages_.data(), kPoison, static_cast<size_t>(bytes));
}

std::byte* Arena::at(int64_t offset, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || bytes > bytes_ || offset > bytes_ - bytes) {
    throw VerifyError(fmt::format("{} bytes at {} are outside the {} arena of {} bytes", bytes,
                                  offset, name_of(space_), bytes_));
  }
  return pages_.data() + offset;
}

}  // namespace spillway::cpu
