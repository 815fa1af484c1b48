// GPT-2's byte-level alphabet: a printable character for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// Printable Latin-1 characters stand for their own byte, U+0100 and following for the other bytes
// in their order. The bytes that `text` (valid UTF-8) spells; none when a character is outside the
// alphabet.
[[nodiscard]] std::optional<std::string> bytes_spelled_by(std::string_view text);

}  // namespace spillway
