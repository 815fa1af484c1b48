// A report as files.
#pragma once

#include <filesystem>
#include <ostream>

#include "trainer/report/document.h"

namespace spillway {

// report.md and report.html in `folder`, which is made; says so on `out`. Throws std::runtime_error naming
// the file.
void write_report(const std::filesystem::path& folder, const report::Document& document, std::ostream& out);

}  // namespace spillway
