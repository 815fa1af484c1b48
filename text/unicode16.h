// What Unicode 16 has that Unicode 14 had not: Debian 12's PCRE2 knows 14, Hugging Face's regular
// expressions 16.
#pragma once

#include <span>
#include <string_view>

namespace spillway {

struct NewCharacters {
  char32_t first, last;
  std::string_view category;  // general category, "Lo"
};

// Whether valid UTF-8 has any of them.
[[nodiscard]] bool has_new_characters(std::string_view text);

// By code point. Source: what \p{CATEGORY} of tokenizers 0.23.3 matches beyond Python 3.11's
// unicodedata.
[[nodiscard]] std::span<const NewCharacters> new_characters();

}  // namespace spillway
