#include "model/llama.h"

#include <cmath>
#include <string>

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

// Names of activations are those that MaxText's users know.
Program decoder_layer(const LlamaConfig& c, const BatchShape& batch, const Precision& precision) {
  const int64_t T = batch.tokens(), d = c.hidden_size, f = c.intermediate_size;
  const int64_t H = c.num_attention_heads, K = c.num_key_value_heads, hd = c.head_dim;
  const Init init{Init::Kind::kNormal, static_cast<float>(c.initializer_range)};
  const Init ones{Init::Kind::kOnes, 0};

  ProgramBuilder b("decoder_layer");
  b.set_grad_dtype(precision.gradients);
  auto weight = [&](const char* name, int64_t out, int64_t in) {
    return b.param(name, precision.compute, {out, in}, init);
  };
  const TensorId x = b.block_input("decoder_layer_input", precision.compute, {T, d});
  const TensorId input_norm = b.param("input_layernorm.weight", precision.compute, {d}, ones);
  const TensorId wq = weight("self_attn.q_proj.weight", H * hd, d);
  const TensorId wk = weight("self_attn.k_proj.weight", K * hd, d);
  const TensorId wv = weight("self_attn.v_proj.weight", K * hd, d);
  const TensorId wo = weight("self_attn.o_proj.weight", d, H * hd);
  const TensorId post_norm =
      b.param("post_attention_layernorm.weight", precision.compute, {d}, ones);
  const TensorId w_gate = weight("mlp.gate_proj.weight", f, d);
  const TensorId w_up = weight("mlp.up_proj.weight", f, d);
  const TensorId w_down = weight("mlp.down_proj.weight", d, f);
  const TensorId table = b.constant("rope_table", DType::kF32, {batch.seq_len, hd / 2, 2});

  const Attrs eps{{Attr::kEps, c.rms_norm_eps}};
  auto rope_attrs = [&](int64_t heads) {
    return Attrs{{Attr::kHeads, static_cast<double>(heads)},
                 {Attr::kHeadDim, static_cast<double>(hd)},
                 {Attr::kRopeDim, static_cast<double>(hd)},
                 {Attr::kInterleaved, 0}};
  };
  const Attrs attention{{Attr::kHeads, static_cast<double>(H)},
                        {Attr::kKvHeads, static_cast<double>(K)},
                        {Attr::kHeadDim, static_cast<double>(hd)},
                        {Attr::kVHeadDim, static_cast<double>(hd)},
                        {Attr::kSeq, static_cast<double>(batch.seq_len)},
                        {Attr::kScale, 1 / std::sqrt(static_cast<double>(hd))}};

  using enum OpKind;
  const TensorId h = b.op(kRmsNorm, "attention_norm", {x, input_norm}, eps);        // [T, d]
  const TensorId q0 = b.op(kLinear, "query_unrotated", {h, wq});                    // [T, H*hd]
  const TensorId k0 = b.op(kLinear, "key_unrotated", {h, wk});                      // [T, K*hd]
  const TensorId v = b.op(kLinear, "value_proj", {h, wv});                          // [T, K*hd]
  const TensorId q = b.op(kRope, "query_proj", {q0, table}, rope_attrs(H));
  const TensorId k = b.op(kRope, "key_proj", {k0, table}, rope_attrs(K));
  const TensorId context = b.op(kAttention, "context", {q, k, v}, attention);       // [T, H*hd]
  const TensorId o = b.op(kLinear, "out_proj", {context, wo});                      // [T, d]
  const TensorId x2 = b.op(kAdd, "mlp_input", {x, o});
  const TensorId h2 = b.op(kRmsNorm, "mlp_norm", {x2, post_norm}, eps);
  const TensorId gate = b.op(kLinear, "mlpwi_0", {h2, w_gate});                     // [T, f]
  const TensorId up = b.op(kLinear, "mlpwi_1", {h2, w_up});
  const TensorId act = b.op(kSwiglu, "mlp_activation", {gate, up});
  const TensorId down = b.op(kLinear, "mlpwo", {act, w_down});                      // [T, d]
  return b.finish(b.op(kAdd, "decoder_layer_output", {x2, down}));
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
