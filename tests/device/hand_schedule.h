// Schedules written by hand, with buffers placed one after another, for tests of devices.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

class HandSchedule {
 public:
  Schedule schedule{.buffers = {}, .slots = {{.block = "L0"}}, .instrs = {}};
  MemoryPlan plan;

  TensorId buffer(const std::string& name, Shape shape, Space space = Space::kHbm,
                  DType dtype = DType::kF32) {
    schedule.buffers.push_back({.name = name, .dtype = dtype, .shape = std::move(shape),
                                .space = space, .persistent = true, .activation = ""});
    SpacePlan& arena = space == Space::kHbm ? plan.hbm : plan.host;
    plan.offset.push_back((arena.bytes + kAlignment - 1) / kAlignment * kAlignment);
    arena.bytes = plan.offset.back() + schedule.buffers.back().bytes();
    return static_cast<TensorId>(schedule.buffers.size()) - 1;
  }

  // Returns the instruction's index.
  int add(Stream stream, OpKind kind, std::vector<TensorId> in, std::vector<TensorId> out,
          std::vector<int> waits = {}, Attrs attrs = {}) {
    std::vector<bool> accumulate(out.size(), false);
    Op op{.kind = kind, .in = std::move(in), .out = std::move(out),
          .accumulate = std::move(accumulate), .attrs = std::move(attrs)};
    schedule.instrs.push_back(
        {.slot = 0, .stream = stream, .op = std::move(op), .waits = std::move(waits)});
    return static_cast<int>(schedule.instrs.size()) - 1;
  }

  void allocate(Device& device) const {
    device.allocate({.hbm = plan.hbm.bytes, .host = plan.host.bytes});
  }

  template <class T>
  void write(Device& device, TensorId id, const std::vector<T>& values) const {
    device.write(schedule.buffers[id].space, plan.offset[id], std::as_bytes(std::span(values)));
  }
  template <class T = float>
  [[nodiscard]] std::vector<T> read(const Device& device, TensorId id) const {
    std::vector<T> values(static_cast<size_t>(schedule.buffers[id].bytes()) / sizeof(T));
    device.read(schedule.buffers[id].space, plan.offset[id],
                std::as_writable_bytes(std::span(values)));
    return values;
  }
};

}  // namespace spillway
