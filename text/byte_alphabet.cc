#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace spillway {
namespace {

constexpr char32_t kCharacters = 0x100 + 68;  // 68 bytes are not printable

constexpr bool is_printable(char32_t c) {
  return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

constexpr std::array<int, kCharacters> byte_of_character() {
  std::array<int, kCharacters> bytes{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 0x100; ++byte) {
    if (is_printable(byte)) {
      bytes[byte] = static_cast<int>(byte);
    } else {
      bytes[byte] = -1;
      bytes[next++] = static_cast<int>(byte);
    }
  }
  return bytes;
}

}  // namespace

std::optional<std::string> bytes_spelled_by(std::string_view text) {
  static constexpr std::array<int, kCharacters> kBytes = byte_of_character();
  std::string bytes;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.value >= kCharacters || kBytes[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[point.value]);
    text.remove_prefix(point.bytes);
  }
  return bytes;
}

}  // namespace spillway
