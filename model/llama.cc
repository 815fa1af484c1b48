#include "model/llama.h"

#include <cmath>
#include <string>

#include "model/layers.h"
#include "program/builder.h"
#include "program/error.h"

namespace spillway {
namespace {

void validate(const LlamaConfig& c) {
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    throw ConfigError("model.num_attention_heads (" + std::to_string(c.num_attention_heads) +
                      ") is not a multiple of model.num_key_value_heads (" +
                      std::to_string(c.num_key_value_heads) + ")");
  }
  if (c.head_dim % 2 != 0) {
    throw ConfigError("model.head_dim (" + std::to_string(c.head_dim) +
                      ") is odd; rotary embedding turns pairs");
  }
}

Attrs attention_attrs(const LlamaConfig& c, const BatchShape& batch) {
  const auto head_dim = static_cast<double>(c.head_dim);
  return {{Attr::kHeads, static_cast<double>(c.num_attention_heads)},
          {Attr::kKvHeads, static_cast<double>(c.num_key_value_heads)},
          {Attr::kHeadDim, head_dim},
          {Attr::kVHeadDim, head_dim},
          {Attr::kSeq, static_cast<double>(batch.seq_len)},
          {Attr::kScale, 1 / std::sqrt(head_dim)}};
}

// Names of activations are those that MaxText's users know.
Program decoder_layer(const LlamaConfig& c, const BatchShape& batch, const Precision& precision) {
  const int64_t T = batch.tokens(), d = c.hidden_size;
  const int64_t H = c.num_attention_heads, K = c.num_key_value_heads, hd = c.head_dim;
  ProgramBuilder b("decoder_layer");
  b.set_grad_dtype(precision.gradients);
  LayerBuilder layer(b, precision, c.initializer_range);
  const TensorId table = b.constant("rope_table", DType::kF32, {batch.seq_len, hd / 2, 2});
  auto rope = [&](const char* name, TensorId x, int64_t heads) {
    return b.op(OpKind::kRope, name, {x, table},
                {{Attr::kHeads, static_cast<double>(heads)},
                 {Attr::kHeadDim, static_cast<double>(hd)},
                 {Attr::kRopeDim, static_cast<double>(hd)},
                 {Attr::kInterleaved, 0}});
  };
  auto project = [&](const char* name, TensorId x, const char* weight, int64_t out, Dim rows) {
    return b.op(OpKind::kLinear, name, {x, layer.weight(weight, out, d, rows)});
  };

  const TensorId x = b.block_input("decoder_layer_input", precision.compute, {T, d});
  const TensorId h = layer.norm("attention_norm", "input_layernorm.weight", x, d, c.rms_norm_eps);
  const TensorId q0 =
      project("query_unrotated", h, "self_attn.q_proj.weight", H * hd, Dim::kHeads);
  const TensorId k0 =
      project("key_unrotated", h, "self_attn.k_proj.weight", K * hd, Dim::kKvHeads);
  const TensorId v =
      project("value_proj", h, "self_attn.v_proj.weight", K * hd, Dim::kKvHeads);
  const TensorId q = rope("query_proj", q0, H);                              // [T, H*hd]
  const TensorId k = rope("key_proj", k0, K);                                // [T, K*hd]
  const TensorId context =
      b.op(OpKind::kAttention, "context", {q, k, v}, attention_attrs(c, batch));  // [T, H*hd]
  const TensorId w_o =
      layer.weight("self_attn.o_proj.weight", d, H * hd, Dim::kWhole, Dim::kHeads);
  const TensorId o = b.op(OpKind::kLinear, "out_proj", {context, w_o});      // [T, d]
  const TensorId x2 = b.op(OpKind::kAdd, "mlp_input", {x, o});               // [T, d]
  const TensorId h2 =
      layer.norm("mlp_norm", "post_attention_layernorm.weight", x2, d, c.rms_norm_eps);
  const TensorId down = layer.swiglu_mlp("mlp.", h2, d, c.intermediate_size);
  return b.finish(b.op(OpKind::kAdd, "decoder_layer_output", {x2, down}));
}

}  // namespace

Model build_llama(const LlamaConfig& c, const BatchShape& batch, const Precision& precision) {
  validate(c);
  const EndsConfig ends{c.vocab_size, c.hidden_size, c.rms_norm_eps, c.tie_word_embeddings,
                        c.initializer_range};
  Model model;
  model.programs = {embedding_program(ends, batch, precision), decoder_layer(c, batch, precision),
                    head_program(ends, batch, precision, true),
                    head_program(ends, batch, precision, false)};
  model.layer_programs = {1};
  model.blocks.push_back({.label = "embed", .prefix = "", .program = 0});
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string n = std::to_string(i);
    model.blocks.push_back({.label = "L" + n, .prefix = "model.layers." + n + ".", .program = 1});
  }
  model.blocks.push_back({.label = "head", .prefix = "", .program = 2, .evaluation = 3});

  std::vector<double> frequencies = rope_frequencies(c.head_dim, c.rope_theta);
  if (c.rope_scaling) frequencies = llama3_frequencies(std::move(frequencies), *c.rope_scaling);
  model.constants["rope_table"] = rope_table(frequencies, batch.seq_len);
  return model;
}

}  // namespace spillway
