#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace spillway {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

uint8_t byte_of(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// Bytes that may follow `lead`, and the range of the first of them; {0, ..} for a byte that cannot
// lead.
struct Sequence {
  size_t tail;
  uint8_t low, high;
};

Sequence sequence_of(uint8_t lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return {1, 0x80, 0xbf};
  if (lead == 0xe0) return {2, 0xa0, 0xbf};
  if (lead == 0xed) return {2, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {2, 0x80, 0xbf};
  if (lead == 0xf0) return {3, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {3, 0x80, 0xbf};
  if (lead == 0xf4) return {3, 0x80, 0x8f};
  return {0, 0, 0};
}

// The bytes at `at` that belong to one sequence as far as it is well-formed: at least 1.
struct Step {
  size_t bytes;
  bool whole;
};

Step step_at(std::string_view text, size_t at) {
  if (byte_of(text, at) < 0x80) return {1, true};
  const Sequence sequence = sequence_of(byte_of(text, at));
  if (sequence.tail == 0) return {1, false};
  uint8_t low = sequence.low, high = sequence.high;
  for (size_t i = 1; i <= sequence.tail; ++i, low = 0x80, high = 0xbf) {
    if (at + i >= text.size() || byte_of(text, at + i) < low || byte_of(text, at + i) > high) {
      return {i, false};
    }
  }
  return {sequence.tail + 1, true};
}

}  // namespace

size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (at < text.size() && byte_of(text, at) < 0x80) ++at;
  return at;
}

size_t valid_utf8_prefix(std::string_view text) {
  for (size_t at = ascii_prefix(text); at < text.size();) {
    const Step step = step_at(text, at);
    if (!step.whole) return at;
    at += step.bytes;
    if (at < text.size() && byte_of(text, at) < 0x80) at += ascii_prefix(text.substr(at));
  }
  return text.size();
}

void replace_invalid_utf8(std::string& text) {
  size_t at = valid_utf8_prefix(text);
  if (at == text.size()) return;
  std::string valid = text.substr(0, at);
  while (at < text.size()) {
    at += step_at(text, at).bytes;
    valid += kReplacement;
    const std::string_view rest = std::string_view(text).substr(at);
    const size_t good = valid_utf8_prefix(rest);
    valid += rest.substr(0, good);
    at += good;
  }
  text = std::move(valid);
}

CodePoint first_code_point(std::string_view text) {
  const uint8_t lead = byte_of(text, 0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t value = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (byte_of(text, i) & 0x3fu);
  return {value, bytes};
}

void append_utf8(char32_t value, std::string& out) {
  if (value < 0x80) {
    out += static_cast<char>(value);
    return;
  }
  const int tail = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  const unsigned lead = tail == 1 ? 0xc0 : tail == 2 ? 0xe0 : 0xf0;
  out += static_cast<char>(lead | value >> (6 * tail));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((value >> (6 * i)) & 0x3f));
}

bool is_ascii(std::string_view text) { return ascii_prefix(text) == text.size(); }

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace spillway
