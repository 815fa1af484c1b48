// Unicode's normal form C.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

// `text`, valid UTF-8, in NFC.
[[nodiscard]] std::string nfc(std::string_view text);

}  // namespace spillway
