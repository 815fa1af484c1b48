#include "model/deepseek.h"

#include <fmt/format.h>

#include "model/deepseek_layers.h"
#include "program/error.h"

namespace spillway {
namespace {

// x [T, d] -> the layer's output [T, d].
TensorId decoder_layer(LayerBuilder& layer, const DeepseekConfig& c, const BatchShape& batch,
                       TensorId x, bool experts) {
  const int64_t d = c.hidden_size;
  const TensorId h = layer.norm("attention_norm", "input_layernorm.weight", x, d, c.rms_norm_eps);
  const TensorId o = latent_attention(layer, c, batch, h);
  const TensorId x2 = layer.b.op(OpKind::kAdd, "mlp_input", {x, o});
  const TensorId h2 =
      layer.norm("mlp_norm", "post_attention_layernorm.weight", x2, d, c.rms_norm_eps);
  const TensorId mlp = experts ? mixture_of_experts(layer, c, batch, h2)
                               : layer.swiglu_mlp("mlp.", h2, d, c.intermediate_size);
  return layer.b.op(OpKind::kAdd, "decoder_layer_output", {x2, mlp});
}

Program layer_program(const DeepseekConfig& c, const BatchShape& batch, const Precision& precision,
                      bool experts) {
  ProgramBuilder b(experts ? "moe_layer" : "dense_layer");
  b.set_grad_dtype(precision.gradients);
  LayerBuilder layer(b, precision, c.initializer_range);
  const TensorId x =
      b.block_input("decoder_layer_input", precision.compute, {batch.tokens(), c.hidden_size});
  return b.finish(decoder_layer(layer, c, batch, x, experts));
}

// Multi-token prediction, section 2.2 of the DeepSeek-V3 report: the residual stream before the final
// norm and the embedding of the next token, each normed, are projected to one, pass a decoder layer, and
// predict the token after the next through the model's own embedding and head. The stream itself
// passes: the block's output is its input.
Program mtp_program(const DeepseekConfig& c, const BatchShape& batch, const Precision& precision) {
  const int64_t T = batch.tokens(), d = c.hidden_size;
  ProgramBuilder b("mtp");
  b.set_grad_dtype(precision.gradients);
  LayerBuilder layer(b, precision, c.initializer_range);
  const Init init{Init::Kind::kNormal, static_cast<float>(c.initializer_range)};
  const TensorId x = b.block_input("mtp_input", precision.compute, {T, d});
  const TensorId targets = b.step_io(step_io::kTargets, DType::kI32, {T}, true);
  const TensorId scalars = b.step_io(step_io::kScalars, DType::kF32, {kStepScalarCount});
  const TensorId loss = b.step_io(step_io::kMtpLoss, DType::kF32, {1});
  const std::vector<Dim> vocab = {Dim::kVocab, Dim::kWhole};
  const TensorId embedding =
      b.global_param(kEmbeddingWeight, precision.compute, {c.vocab_size, d}, init, vocab);
  const TensorId head = c.tie_word_embeddings
                            ? embedding
                            : b.global_param(kHeadWeight, precision.compute, {c.vocab_size, d}, init,
                                             vocab);

  const TensorId next = b.op(OpKind::kNextTokens, "next_tokens", {targets},
                             {{Attr::kSeq, static_cast<double>(batch.seq_len)}});
  const TensorId e = b.op_as(precision.compute, OpKind::kEmbedding, "next_embedding",
                             {next, embedding});
  const TensorId e_n = layer.norm("embedding_norm", "enorm.weight", e, d, c.rms_norm_eps);
  const TensorId h_n = layer.norm("hidden_norm", "hnorm.weight", x, d, c.rms_norm_eps);
  const TensorId both = b.op(OpKind::kConcat, "embedding_and_hidden", {e_n, h_n},  // [T, 2d]
                             {{Attr::kBegin, static_cast<double>(d)},
                              {Attr::kEnd, static_cast<double>(2 * d)}});
  const TensorId h0 = b.op(OpKind::kLinear, "mtp_projection",
                           {both, layer.weight("eh_proj.weight", d, 2 * d)});
  const TensorId h1 = decoder_layer(layer, c, batch, h0, true);
  const TensorId h = layer.norm("mtp_norm", "shared_head.norm.weight", h1, d, c.rms_norm_eps);
  b.enter_backward();
  add_chunked_loss(b, {.hidden = h, .targets = ProgramBuilder::auxiliary(next, 1),
                       .head_weight = head, .scalars = scalars, .loss = loss, .rows = T,
                       .chunk = batch.loss_chunk_tokens, .weight = c.mtp_loss_weight});
  return b.finish(x);
}

// In evaluation the module does not run.
Program mtp_evaluation(const DeepseekConfig& c, const BatchShape& batch,
                       const Precision& precision) {
  ProgramBuilder b("mtp_eval");
  return b.finish_forward_only(
      b.block_input("mtp_input", precision.compute, {batch.tokens(), c.hidden_size}));
}

std::vector<float> position_table(const DeepseekConfig& c, int64_t seq_len) {
  if (!c.rope_scaling) return rope_table(rope_frequencies(c.qk_rope_head_dim, c.rope_theta), seq_len);
  return rope_table(yarn_frequencies(c.qk_rope_head_dim, c.rope_theta, *c.rope_scaling), seq_len,
                    yarn_amplitude(*c.rope_scaling));
}

void require(bool condition, const std::string& what) {
  if (!condition) throw ConfigError(what);
}

}  // namespace

void validate(const DeepseekConfig& c) {
  require(c.qk_rope_head_dim % 2 == 0,
          fmt::format("model.qk_rope_head_dim ({}) is odd; rotary embedding turns pairs",
                      c.qk_rope_head_dim));
  require(c.first_k_dense_replace <= c.num_hidden_layers,
          fmt::format("model.first_k_dense_replace ({}) is above model.num_hidden_layers ({})",
                      c.first_k_dense_replace, c.num_hidden_layers));
  if (c.rope_scaling) {
    require(c.rope_scaling->beta_fast >= c.rope_scaling->beta_slow,
            fmt::format("model.rope_scaling.beta_fast ({}) is below beta_slow ({}); it counts more "
                        "turns, so it is at least as large",
                        c.rope_scaling->beta_fast, c.rope_scaling->beta_slow));
  }
  if (c.first_k_dense_replace == c.num_hidden_layers && c.num_nextn_predict_layers == 0) return;
  require(c.num_experts_per_tok <= c.n_routed_experts,
          fmt::format("model.num_experts_per_tok ({}) is above model.n_routed_experts ({})",
                      c.num_experts_per_tok, c.n_routed_experts));
  require(c.n_routed_experts % c.n_group == 0,
          fmt::format("model.n_routed_experts ({}) is not a multiple of model.n_group ({})",
                      c.n_routed_experts, c.n_group));
  require(c.topk_group <= c.n_group, fmt::format("model.topk_group ({}) is above model.n_group ({})",
                                                 c.topk_group, c.n_group));
  const int64_t group = c.n_routed_experts / c.n_group;
  require(c.topk_group * group >= c.num_experts_per_tok,
          fmt::format("model.topk_group ({}) groups of {} experts hold {}, fewer than "
                      "model.num_experts_per_tok ({})",
                      c.topk_group, group, c.topk_group * group, c.num_experts_per_tok));
  require(c.group_top <= group,
          fmt::format("model.group_top ({}) is above the {} experts of a group; choose 1 to {}",
                      c.group_top, group, group));
}

Model build_deepseek(const DeepseekConfig& c, const BatchShape& batch, const Precision& precision) {
  validate(c);
  const EndsConfig ends{c.vocab_size, c.hidden_size, c.rms_norm_eps, c.tie_word_embeddings,
                        c.initializer_range};
  Model model;
  auto add_program = [&](Program program) {
    model.programs.push_back(std::move(program));
    return static_cast<int>(model.programs.size()) - 1;
  };
  bool any_dense = false, any_experts = false;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) (has_experts(c, i) ? any_experts : any_dense) = true;
  const int embedding = add_program(embedding_program(ends, batch, precision));
  const int dense = any_dense ? add_program(layer_program(c, batch, precision, false)) : -1;
  const int experts = any_experts ? add_program(layer_program(c, batch, precision, true)) : -1;
  if (any_dense) model.layer_programs.push_back(dense);
  if (any_experts) model.layer_programs.push_back(experts);

  model.blocks.push_back({.label = "embed", .prefix = "", .program = embedding});
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string n = std::to_string(i);
    model.blocks.push_back({.label = "L" + n, .prefix = "model.layers." + n + ".",
                            .program = has_experts(c, i) ? experts : dense});
  }
  if (c.num_nextn_predict_layers > 0) {
    const int mtp = add_program(mtp_program(c, batch, precision));
    model.layer_programs.push_back(mtp);
    model.blocks.push_back({.label = "mtp",
                            .prefix = "model.layers." + std::to_string(c.num_hidden_layers) + ".",
                            .program = mtp,
                            .evaluation = add_program(mtp_evaluation(c, batch, precision))});
  }
  const int head = add_program(head_program(ends, batch, precision, true));
  model.blocks.push_back({.label = "head", .prefix = "", .program = head,
                          .evaluation = add_program(head_program(ends, batch, precision, false))});

  model.constants["rope_table"] = position_table(c, batch.seq_len);
  return model;
}

}  // namespace spillway
