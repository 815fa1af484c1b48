// `spillway bench`: runs the rows of a published table and writes them beside what was published.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "parallel/world.h"
#include "trainer/report/bench_report.h"

namespace spillway {

struct BenchOptions {
  std::vector<std::string> rows;       // ids; empty: all
  std::vector<std::string> overrides;  // on top of every row's own
  // 0: simulated, each row on its hardware. Else steps to train on the device of the rows' configs and
  // on this run's ranks; a row of another number of ranks is left out, and says so.
  int64_t measure_steps = 0;
  std::filesystem::path out;  // report.md and report.html go here
};

// Every config, hardware file and mesh is read before the first row runs; a bad one ends it all:
// ConfigError with the row's id. A row that then cannot run has BenchResult::error. Prints a line a row,
// and the mean errors.
BenchReport bench(const BenchTable& table, const BenchOptions& options, World& world,
                  std::ostream& out);

}  // namespace spillway
