// A run of a Schedule as a time line that Chrome (chrome://tracing) and Perfetto show.
#pragma once

#include <span>
#include <string>

#include "device/device.h"
#include "program/schedule.h"

namespace spillway {

// A row a stream, an event an instruction ("linear L0.m0.query_proj"; its text, slot, bytes and
// FLOPs are arguments), and before it a "wait" for as long as its stream stood still for others.
[[nodiscard]] std::string trace_json(const Schedule& schedule,
                                     std::span<const InstrTiming> timings);

// Throws std::runtime_error naming the file.
void write_trace(const std::string& path, const Schedule& schedule,
                 std::span<const InstrTiming> timings);

}  // namespace spillway
