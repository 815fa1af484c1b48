// A small residual MLP block: the smallest Program with everything in it.
#pragma once

#include "program/builder.h"
#include "program/lower.h"

namespace spillway {

// T = 8 tokens, d = 4, f = 6.
inline Program mlp_block() {
  ProgramBuilder b("mlp_block");
  const Init init{Init::Kind::kNormal, 0.1F};
  const TensorId x = b.block_input("block_input", DType::kF32, {8, 4});
  const TensorId norm = b.param("norm.weight", DType::kF32, {4}, {Init::Kind::kOnes, 0});
  const TensorId w1 = b.param("up.weight", DType::kF32, {6, 4}, init);
  const TensorId w0 = b.param("gate.weight", DType::kF32, {6, 4}, init);
  const TensorId w2 = b.param("down.weight", DType::kF32, {4, 6}, init);
  const TensorId h = b.op(OpKind::kRmsNorm, "normed", {x, norm}, {{Attr::kEps, 1e-5}});
  const TensorId gate = b.op(OpKind::kLinear, "gate", {h, w0});
  const TensorId up = b.op(OpKind::kLinear, "up", {h, w1});
  const TensorId act = b.op(OpKind::kSwiglu, "act", {gate, up});
  const TensorId down = b.op(OpKind::kLinear, "down", {act, w2});
  return b.finish(b.op(OpKind::kAdd, "block_output", {x, down}));
}

// The end of a chain of blocks: reads the residual stream in both phases, so that it has a gradient.
// With "embed.weight" it shares the source's weight.
inline Program tail_block(const std::string& weight = "head.weight") {
  ProgramBuilder b("tail");
  const TensorId x = b.block_input("tail_input", DType::kF32, {8, 4});
  const TensorId targets = b.step_io("targets", DType::kI32, {8}, true);
  const TensorId scalars = b.step_io("scalars", DType::kF32, {kStepScalarCount});
  const TensorId loss = b.step_io("loss", DType::kF32, {1});
  const TensorId w = b.param(weight, DType::kF32, {5, 4}, {Init::Kind::kNormal, 0.1F});
  b.enter_backward();
  const TensorId logits = b.op(OpKind::kLinear, "logits", {x, w});
  b.accumulate(OpKind::kCrossEntropy, loss, "loss.0", {logits, targets, scalars});
  b.differentiate();
  return b.finish(kNoTensor);
}

inline Program source_block() {
  ProgramBuilder b("source");
  const TensorId tokens = b.step_io("tokens", DType::kI32, {8}, true);
  const TensorId w = b.param("embed.weight", DType::kF32, {5, 4}, {Init::Kind::kNormal, 0.1F});
  return b.finish(b.op_as(DType::kF32, OpKind::kEmbedding, "embedding", {tokens, w}));
}

struct Chain {
  std::vector<Program> programs;
  std::vector<Block> blocks;
};

// source, `layers` MLP blocks, tail.
inline Chain mlp_chain(int layers, Program layer = mlp_block()) {
  Chain chain{{source_block(), std::move(layer), tail_block()}, {}};
  chain.blocks.push_back({.label = "embed", .prefix = "", .program = 0});
  for (int i = 0; i < layers; ++i) {
    chain.blocks.push_back(
        {.label = "L" + std::to_string(i), .prefix = std::to_string(i) + ".", .program = 1});
  }
  chain.blocks.push_back({.label = "head", .prefix = "", .program = 2});
  return chain;
}

}  // namespace spillway
