// The ends of a model: token embedding; final norm, output projection and loss.
#include <algorithm>

#include "model/layers.h"

namespace spillway {
namespace {

Init normal(const EndsConfig& config) {
  return {Init::Kind::kNormal, static_cast<float>(config.initializer_range)};
}

}  // namespace

void add_chunked_loss(ProgramBuilder& b, const ChunkedLoss& c) {
  const Attrs scale = c.weight == 1 ? Attrs{} : Attrs{{Attr::kScale, c.weight}};
  for (int64_t begin = 0; begin < c.rows; begin += c.chunk) {
    const int64_t end = std::min(begin + c.chunk, c.rows);
    const std::string n = "." + std::to_string(begin / c.chunk);
    const Attrs range{{Attr::kBegin, static_cast<double>(begin)},
                      {Attr::kEnd, static_cast<double>(end)}};
    const TensorId h = b.op(OpKind::kRows, "hidden" + n, {c.hidden}, range);    // [chunk, d]
    const TensorId y = b.op(OpKind::kRows, "targets" + n, {c.targets}, range);  // [chunk]
    const TensorId logits =
        b.op_as(DType::kF32, OpKind::kLinear, "logits" + n, {h, c.head_weight});
    b.accumulate(OpKind::kCrossEntropy, c.loss, "loss" + n, {logits, y, c.scalars}, scale);
    if (c.training) b.differentiate();
  }
}

Program embedding_program(const EndsConfig& config, const BatchShape& batch,
                          const Precision& precision) {
  ProgramBuilder b("embedding");
  b.set_grad_dtype(precision.gradients);
  const TensorId tokens = b.step_io(step_io::kTokens, DType::kI32, {batch.tokens()}, true);
  const TensorId weight = b.param(kEmbeddingWeight, precision.compute,
                                  {config.vocab_size, config.hidden_size}, normal(config),
              {Dim::kVocab, Dim::kWhole});
  return b.finish(b.op_as(precision.compute, OpKind::kEmbedding, "embedding", {tokens, weight}));
}

// Logits are computed, used and dropped chunk by chunk, and each chunk's gradient with them: so the
// projection and the loss of a training step belong to the backward list, where their only reader is.
// Evaluation runs the same chunks forward.
Program head_program(const EndsConfig& config, const BatchShape& batch, const Precision& precision,
                     bool training) {
  ProgramBuilder b(training ? "head" : "head_eval");
  b.set_grad_dtype(precision.gradients);
  const int64_t rows = batch.tokens();
  const TensorId x = b.block_input("head_input", precision.compute, {rows, config.hidden_size});
  const TensorId norm =
      b.param("model.norm.weight", precision.compute, {config.hidden_size}, {Init::Kind::kOnes, 0});
  const TensorId weight =
      b.param(config.tie_word_embeddings ? kEmbeddingWeight : kHeadWeight, precision.compute,
              {config.vocab_size, config.hidden_size}, normal(config),
              {Dim::kVocab, Dim::kWhole});
  const TensorId targets = b.step_io(step_io::kTargets, DType::kI32, {rows}, true);
  const TensorId scalars = b.step_io(step_io::kScalars, DType::kF32, {kStepScalarCount});
  const TensorId loss = b.step_io(step_io::kLoss, DType::kF32, {1});

  const TensorId h = b.op(OpKind::kRmsNorm, "final_norm", {x, norm},
                          {{Attr::kEps, config.rms_norm_eps}});
  if (training) b.enter_backward();
  add_chunked_loss(b, {.hidden = h, .targets = targets, .head_weight = weight, .scalars = scalars,
                       .loss = loss, .rows = rows, .chunk = batch.loss_chunk_tokens,
                       .training = training});
  return training ? b.finish(kNoTensor) : b.finish_forward_only(kNoTensor);
}

}  // namespace spillway
