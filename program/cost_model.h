// What the scheduling passes know about speed. Estimates only move instructions: they never change
// a result, and no report quotes them as a measurement.
#pragma once

#include "program/schedule.h"

namespace spillway {

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Seconds the instruction keeps its stream busy.
  [[nodiscard]] virtual double seconds(const Schedule& schedule, const Instr& instr) const = 0;
};

}  // namespace spillway
