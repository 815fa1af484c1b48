// What `spillway sweep` has to say.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/document.h"
#include "trainer/report/step_report.h"

namespace spillway::report {

struct SweepPoint {
  std::vector<std::string> values;  // of the varied keys, in order
  std::string strategy;             // empty: the config's own
  StepReport step;
};

struct SweepSubject {
  std::string config, machine;
  std::vector<std::string> keys;  // varied
};

// A table of all points, and a bar a point; a chart for each value of the first key of two.
[[nodiscard]] Document sweep_document(const SweepSubject& subject,
                                      const std::vector<SweepPoint>& points);

}  // namespace spillway::report
