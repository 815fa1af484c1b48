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

// n = qk_nope_head_dim, r = qk_rope_head_dim, v = v_head_dim; a head is n+r wide for q and k.
struct Mla {
  LayerBuilder& layer;
  const DeepseekConfig& c;
  int64_t seq_len;
  int64_t d = c.hidden_size, H = c.num_attention_heads, kv_lora = c.kv_lora_rank;
  int64_t n = c.qk_nope_head_dim, r = c.qk_rope_head_dim, v = c.v_head_dim;
  TensorId table = layer.b.constant("rope_table", DType::kF32, {seq_len, r / 2, 2});

  TensorId linear(const char* name, TensorId x, const char* weight, int64_t out, int64_t in,
                  Dim rows = Dim::kWhole, Dim columns = Dim::kWhole) {
    return layer.b.op(OpKind::kLinear, name, {x, layer.weight(weight, out, in, rows, columns)});
  }
  TensorId norm(const char* name, TensorId x, const char* weight, int64_t width) {
    return layer.norm(name, weight, x, width, kLatentNormEps);
  }
  TensorId rope(const char* name, TensorId x, int64_t heads, int64_t head_dim) {
    return layer.b.op(OpKind::kRope, name, {x, table},
                      {{Attr::kHeads, static_cast<double>(heads)},
                       {Attr::kHeadDim, static_cast<double>(head_dim)},
                       {Attr::kRopeDim, static_cast<double>(r)},
                       {Attr::kInterleaved, c.rope_interleave ? 1.0 : 0.0}});
  }
  TensorId columns(const char* name, TensorId x, int64_t begin, int64_t end) {
    return layer.b.op(OpKind::kColumns, name, {x},
                      {{Attr::kBegin, static_cast<double>(begin)},
                       {Attr::kEnd, static_cast<double>(end)}});
  }

  TensorId query(TensorId h) {  // [T, H*(n+r)]
    TensorId q;
    if (c.q_lora_rank > 0) {
      const TensorId a = linear("query_wa_proj", h, "self_attn.q_a_proj.weight", c.q_lora_rank, d);
      const TensorId a_n = norm("mla_q", a, "self_attn.q_a_layernorm.weight", c.q_lora_rank);
      q = linear("query_unrotated", a_n, "self_attn.q_b_proj.weight", H * (n + r), c.q_lora_rank,
                 Dim::kHeads);
    } else {
      q = linear("query_unrotated", h, "self_attn.q_proj.weight", H * (n + r), d, Dim::kHeads);
    }
    return rope("query_proj", q, H, n + r);
  }

  struct KeyValue {
    TensorId key, value;  // [T, H*(n+r)], [T, H*v]
  };
  KeyValue key_value(TensorId h) {
    const TensorId kv_a =
        linear("kv_wa_proj", h, "self_attn.kv_a_proj_with_mqa.weight", kv_lora + r, d);
    const TensorId latent = columns("kv_latent", kv_a, 0, kv_lora);  // [T, kv_lora]
    const TensorId k_rot0 = columns("key_rope_unrotated", kv_a, kv_lora, kv_lora + r);
    const TensorId latent_n = norm("mla_kv", latent, "self_attn.kv_a_layernorm.weight", kv_lora);
    const TensorId k_rot = rope("key_rope", k_rot0, 1, r);  // [T, r], shared by all heads
    const TensorId kv_up =
        linear("kv_up", latent_n, "self_attn.kv_b_proj.weight", H * (n + v), kv_lora, Dim::kHeads);
    const Attrs heads{{Attr::kHeads, static_cast<double>(H)},
                      {Attr::kHeadDim, static_cast<double>(n + r)},
                      {Attr::kRopeDim, static_cast<double>(r)},
                      {Attr::kVHeadDim, static_cast<double>(v)}};
    return {layer.b.op(OpKind::kMlaKey, "key_proj", {kv_up, k_rot}, heads),
            layer.b.op(OpKind::kMlaValue, "value_proj", {kv_up}, heads)};
  }

  TensorId attention(TensorId q, const KeyValue& kv) {  // [T, H*v]
    return layer.b.op(OpKind::kAttention, "context", {q, kv.key, kv.value},
                      {{Attr::kHeads, static_cast<double>(H)},
                       {Attr::kKvHeads, static_cast<double>(H)},
                       {Attr::kHeadDim, static_cast<double>(n + r)},
                       {Attr::kVHeadDim, static_cast<double>(v)},
                       {Attr::kSeq, static_cast<double>(seq_len)},
                       {Attr::kScale, softmax_scale(c)}});
  }
};

}  // namespace

TensorId latent_attention(LayerBuilder& layer, const DeepseekConfig& c, const BatchShape& batch,
                          TensorId h) {
  Mla mla{.layer = layer, .c = c, .seq_len = batch.seq_len};
  const TensorId q = mla.query(h);
  const Mla::KeyValue kv = mla.key_value(h);
  const TensorId context = mla.attention(q, kv);
  return mla.linear("out_proj", context, "self_attn.o_proj.weight", c.hidden_size,
                    c.num_attention_heads * c.v_head_dim, Dim::kWhole, Dim::kHeads);
}

}  // namespace spillway
