// The inverse of load_hardware.
#pragma once

#include <string>

#include "device/hardware.h"

namespace spillway {

// The YAML of a hardware file, `comment` at its head. Optional figures and tables without a source or
// without rows are left out; numbers keep six digits. load_hardware reads it back, but for `name`,
// which is the file's.
[[nodiscard]] std::string hardware_text(const Hardware& hardware, const std::string& comment);

}  // namespace spillway
