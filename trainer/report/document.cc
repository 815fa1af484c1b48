#include "trainer/report/document.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace spillway::report {

double rounded(double value, int digits) {
  return std::isfinite(value) ? std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr)
                              : 0;
}

const char* name_of(ChartKind kind) {
  switch (kind) {
    case ChartKind::kBars:
      return "bars";
    case ChartKind::kMemory:
      return "memory";
    case ChartKind::kStreams:
      return "streams";
  }
  return "?";
}

}  // namespace spillway::report
