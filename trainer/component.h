// Components of a step: single instructions, each with buffers of its own.
#pragma once

#include <string>
#include <vector>

#include "program/schedule.h"

namespace spillway {

// One instruction and the buffers that it touches, all of them persistent.
struct Component {
  Schedule schedule;

  [[nodiscard]] const Instr& instr() const { return schedule.instrs[0]; }
  [[nodiscard]] const Op& op() const { return instr().op; }
  [[nodiscard]] int64_t flops() const { return instr_flops(schedule, instr()); }
  [[nodiscard]] int64_t bytes() const { return instr_bytes(schedule, instr()); }
  [[nodiscard]] const Buffer& in(size_t i) const { return buffer(op().in.at(i)); }
  [[nodiscard]] const Buffer& out(size_t i) const { return buffer(op().out.at(i)); }
  [[nodiscard]] const Buffer& buffer(TensorId id) const {
    return schedule.buffers[static_cast<size_t>(id)];
  }
  // Op, attributes, types, shapes and accumulation: components with the same take the same time.
  [[nodiscard]] std::string key() const;
};

[[nodiscard]] Component component_of(const Schedule& schedule, const Instr& instr);
// Every component of the compute stream once, in order; none for frees, copies and collectives.
[[nodiscard]] std::vector<Component> components_of(const Schedule& schedule);

// y[m,n] = x[m,k] . w[n,k]^T as the op `kind` computes it, kLinear, or kLinearWgrad (m = rows of w).
[[nodiscard]] Component product(OpKind kind, DType dtype, int64_t m, int64_t n, int64_t k);

// `count` of them on one stream, each with buffers of its own until those have `bytes`; then those
// again.
[[nodiscard]] Schedule repeated(const Component& component, int count, int64_t bytes);

// Values for an i32 operand with which the op does its usual work: tokens of the vocabulary, and
// balanced routing.
[[nodiscard]] std::vector<int32_t> usual_integers(const Component& component, size_t input);

}  // namespace spillway
