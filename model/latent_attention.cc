#include <cmath>

#include "model/deepseek_layers.h"

namespace spillway {
namespace {

// The norms inside MLA have Hugging Face's default, whatever rms_norm_eps says.
constexpr double kLatentNormEps = 1e-6;

// 1/sqrt(head size), times the square of YaRN's mscale over all dims.
double softmax_scale(const DeepseekConfig& c) {
  const auto head = static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim);
  double scale = 1 / std::sqrt(head);
  if (c.rope_scaling && c.rope_scaling->mscale_all_dim != 0) {
    const double mscale = yarn_mscale(c.rope_scaling->factor, c.rope_scaling->mscale_all_dim);
    scale *= mscale * mscale;
  }
  return scale;
}

}  // namespace

// n = qk_nope_head_dim, r = qk_rope_head_dim, v = v_head_dim; a head is n+r wide for q and k.
TensorId latent_attention(LayerBuilder& layer, const DeepseekConfig& c, const BatchShape& batch,
                          TensorId h) {
  ProgramBuilder& b = layer.b;
  const int64_t d = c.hidden_size, H = c.num_attention_heads, kv_lora = c.kv_lora_rank;
  const int64_t n = c.qk_nope_head_dim, r = c.qk_rope_head_dim, v = c.v_head_dim;
  const TensorId table = b.constant("rope_table", DType::kF32, {batch.seq_len, r / 2, 2});
  auto linear = [&](const char* name, TensorId x, const char* weight, int64_t out, int64_t in) {
    return b.op(OpKind::kLinear, name, {x, layer.weight(weight, out, in)});
  };
  auto rope = [&](const char* name, TensorId x, int64_t heads, int64_t head_dim) {
    return b.op(OpKind::kRope, name, {x, table},
                {{Attr::kHeads, static_cast<double>(heads)},
                 {Attr::kHeadDim, static_cast<double>(head_dim)},
                 {Attr::kRopeDim, static_cast<double>(r)},
                 {Attr::kInterleaved, c.rope_interleave ? 1.0 : 0.0}});
  };
  auto columns = [&](const char* name, TensorId x, int64_t begin, int64_t end) {
    return b.op(OpKind::kColumns, name, {x},
                {{Attr::kBegin, static_cast<double>(begin)}, {Attr::kEnd, static_cast<double>(end)}});
  };

  TensorId q0;  // [T, H*(n+r)]
  if (c.q_lora_rank > 0) {
    const TensorId q_a =
        linear("query_wa_proj", h, "self_attn.q_a_proj.weight", c.q_lora_rank, d);
    const TensorId q_n = layer.norm("mla_q", "self_attn.q_a_layernorm.weight", q_a, c.q_lora_rank,
                                    kLatentNormEps);
    q0 = linear("query_unrotated", q_n, "self_attn.q_b_proj.weight", H * (n + r), c.q_lora_rank);
  } else {
    q0 = linear("query_unrotated", h, "self_attn.q_proj.weight", H * (n + r), d);
  }
  const TensorId q = rope("query_proj", q0, H, n + r);

  const TensorId kv_a =
      linear("kv_wa_proj", h, "self_attn.kv_a_proj_with_mqa.weight", kv_lora + r, d);
  const TensorId latent = columns("kv_latent", kv_a, 0, kv_lora);                   // [T, kv_lora]
  const TensorId k_rot0 = columns("key_rope_unrotated", kv_a, kv_lora, kv_lora + r);  // [T, r]
  const TensorId kv_n =
      layer.norm("mla_kv", "self_attn.kv_a_layernorm.weight", latent, kv_lora, kLatentNormEps);
  const TensorId k_rot = rope("key_rope", k_rot0, 1, r);  // shared by all heads
  const TensorId kv_up =
      linear("kv_up", kv_n, "self_attn.kv_b_proj.weight", H * (n + v), kv_lora);

  const Attrs heads{{Attr::kHeads, static_cast<double>(H)},
                    {Attr::kHeadDim, static_cast<double>(n + r)},
                    {Attr::kRopeDim, static_cast<double>(r)},
                    {Attr::kVHeadDim, static_cast<double>(v)}};
  const TensorId k = b.op(OpKind::kMlaKey, "key_proj", {kv_up, k_rot}, heads);    // [T, H*(n+r)]
  const TensorId value = b.op(OpKind::kMlaValue, "value_proj", {kv_up}, heads);   // [T, H*v]
  const TensorId context = b.op(OpKind::kAttention, "context", {q, k, value},     // [T, H*v]
                                {{Attr::kHeads, static_cast<double>(H)},
                                 {Attr::kKvHeads, static_cast<double>(H)},
                                 {Attr::kHeadDim, static_cast<double>(n + r)},
                                 {Attr::kVHeadDim, static_cast<double>(v)},
                                 {Attr::kSeq, static_cast<double>(batch.seq_len)},
                                 {Attr::kScale, softmax_scale(c)}});
  return linear("out_proj", context, "self_attn.o_proj.weight", d, H * v);
}

}  // namespace spillway
