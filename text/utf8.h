// Valid UTF-8 out of any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway {

// Bytes of `text`, from its start, that are valid UTF-8 (Unicode 3.9, table 3-7).
[[nodiscard]] size_t valid_utf8_prefix(std::string_view text);

// `text` with every maximal subpart of an ill-formed sequence (Unicode 3.9, U+FFFD Substitution of
// Maximal Subparts) replaced by U+FFFD: what Python's bytes.decode("utf-8", errors="replace")
// gives.
void replace_invalid_utf8(std::string& text);

// The code point at the start of valid, non-empty `text`, and its length in bytes.
struct CodePoint {
  char32_t value;
  size_t bytes;
};
[[nodiscard]] CodePoint first_code_point(std::string_view text);
void append_utf8(char32_t value, std::string& out);

// Bytes at the start of `text` that are ASCII.
[[nodiscard]] size_t ascii_prefix(std::string_view text);
[[nodiscard]] bool is_ascii(std::string_view text);
// Unicode's property White_Space.
[[nodiscard]] bool is_white_space(char32_t value);

}  // namespace spillway
