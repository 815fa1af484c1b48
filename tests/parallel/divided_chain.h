// A chain of blocks with its optimizer, every parameter divided over fsdp, and its passes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/model.h"
#include "offload/policy.h"
#include "parallel/gather.h"
#include "parallel/order.h"
#include "program/plan.h"
#include "program/sync.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/program/mlp_block.h"

namespace spillway {

inline Program tail_for_evaluation(const std::string& weight) {
  ProgramBuilder b("tail_eval");
  const TensorId x = b.block_input("tail_input", DType::kF32, {8, 4});
  const TensorId targets = b.step_io("targets", DType::kI32, {8}, true);
  const TensorId scalars = b.step_io("scalars", DType::kF32, {kStepScalarCount});
  const TensorId loss = b.step_io("loss", DType::kF32, {1});
  const TensorId w = b.param(weight, DType::kF32, {5, 4}, {});
  b.accumulate(OpKind::kCrossEntropy, loss, "loss.0",
               {b.op(OpKind::kLinear, "logits", {x, w}), targets, scalars});
  return b.finish_forward_only(kNoTensor);
}

// Source, three layers, tail, and their AdamW; every parameter is divided over fsdp.
inline Model chain_model(bool tied = false) {
  const std::string weight = tied ? "embed.weight" : "head.weight";
  Program layer = mlp_block();
  resolve({"custom", {{"gate", Strategy::kOffload}}}, {&layer});
  Chain chain = mlp_chain(3, std::move(layer));
  chain.programs[2] = tail_block(weight);
  chain.programs.push_back(tail_for_evaluation(weight));
  chain.blocks.back().evaluation = 3;
  Model model{.programs = std::move(chain.programs), .blocks = std::move(chain.blocks),
              .layer_programs = {}, .constants = {}};
  add_adamw(model, {}, {});
  for (Program& program : model.programs) {
    for (Tensor& tensor : program.tensors) {
      const bool divided = tensor.kind == TensorKind::kParam || tensor.kind == TensorKind::kGrad ||
                           tensor.kind == TensorKind::kState;
      if (divided) tensor.shard_axes = axis::kFsdp;
    }
  }
  return model;
}

inline Mesh mesh(int data, int fsdp) {
  return Mesh({.data = data, .fsdp = fsdp}, data * fsdp, 0, 0);
}

inline Schedule lowered(const Model& model, int micro_batches = 2) {
  return lower(model.programs, model.blocks, training_order(model.blocks, micro_batches));
}

inline Schedule gathered(Schedule schedule, const Mesh& mesh, Gathering::Mode mode) {
  gather(schedule, mesh, {mode});
  verify(schedule);
  for (const Buffer& buffer : schedule.buffers) EXPECT_EQ(buffer.shard_axes, 0);
  return schedule;
}

inline Schedule gathered(const Mesh& mesh, Gathering::Mode mode, bool tied = false) {
  return gathered(lowered(chain_model(tied)), mesh, mode);
}

// "slot op" of every instruction that has `part` in it.
inline std::vector<std::string> lines_with(const Schedule& schedule, const std::string& part) {
  std::vector<std::string> lines;
  for (const Instr& instr : schedule.instrs) {
    const std::string text = schedule.slots[instr.slot].text() + " " + to_text(schedule, instr);
    if (text.find(part) != std::string::npos) lines.push_back(text);
  }
  return lines;
}

inline void expect_runs(Schedule& schedule) {
  verify(schedule);
  const MemoryPlan plan = plan_memory(schedule);
  verify(schedule, plan);
  insert_sync(schedule, plan);
  verify_sync(schedule, plan);
}

}  // namespace spillway
