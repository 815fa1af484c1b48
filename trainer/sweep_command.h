// `spillway sweep`: one or two keys varied, every point simulated, as a table and a report.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "trainer/report/sweep_document.h"

namespace spillway {

struct SweepOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string hardware;
  int ranks = 0;  // 0: what the axes of `parallel` multiply to
  // KEY=VALUE,VALUE,...: a key of the config, `ranks`, or hardware.FIGURE. One or two.
  std::vector<std::string> vary;
  bool strategies = false;  // each point under the five strategies, in place of the config's own
  std::filesystem::path out;  // report.md and report.html go here
};

// Reads every point's config and hardware before the first is simulated. Throws ConfigError.
std::vector<report::SweepPoint> sweep(const SweepOptions& options, std::ostream& out);

}  // namespace spillway
