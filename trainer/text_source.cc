#include "trainer/text_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "program/error.h"

namespace spillway {

TextSource::TextSource(const std::string& path) : file_(path) {
  if (file_.size() == 0) throw DataError(fmt::format("{} is empty", path));
}

void TextSource::read(int64_t begin, std::span<int32_t> out) const {
  std::array<std::byte, 4096> bytes;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), bytes.size());
    file_.read(begin, std::span(bytes).first(count));
    for (size_t i = 0; i < count; ++i) out[i] = std::to_integer<int32_t>(bytes[i]);
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

}  // namespace spillway
