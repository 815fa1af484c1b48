#include "text/normalize.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "program/error.h"
#include "text/utf8.h"

namespace spillway {

std::string nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);  // its own normal form
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size < 0) throw DataError(fmt::format("NFC of a text: {}", utf8proc_errmsg(size)));
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
}

}  // namespace spillway
