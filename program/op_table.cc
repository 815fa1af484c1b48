#include "program/op_table.h"

#include <array>
#include <string>

#include "program/builder.h"
#include "program/error.h"

namespace spillway {
namespace {

using Tensors = std::vector<const Tensor*>;

void require(bool condition, const char* what) {
  if (!condition) throw VerifyError(what);
}

Tensor value(DType dtype, Shape shape) { return {.name = "", .dtype = dtype, .shape = shape}; }

Tensor like(const Tensor& tensor) { return value(tensor.dtype, tensor.shape); }

// ---- shape rules: what the outputs are, given inputs that fit ------------------------------------

std::vector<Tensor> infer_embedding(const Tensors& in, const Attrs&, DType) {
  require(in[0]->dtype == DType::kI32, "embedding: tokens are i32");
  return {value(in[1]->dtype, {in[0]->shape[0], in[1]->shape[1]})};
}

std::vector<Tensor> infer_rms_norm(const Tensors& in, const Attrs&, DType) {
  require(in[1]->shape == Shape{in[0]->shape[1]}, "rmsnorm: one weight a column");
  return {like(*in[0]), value(DType::kF32, {in[0]->shape[0]})};
}

std::vector<Tensor> infer_same(const Tensors& in, const Attrs&, DType) { return {like(*in[0])}; }

std::vector<Tensor> infer_add(const Tensors& in, const Attrs&, DType) {
  require(in[0]->shape == in[1]->shape, "add: shapes differ");
  return {like(*in[0])};
}

std::vector<Tensor> infer_rope(const Tensors& in, const Attrs& attrs, DType) {
  require(in[0]->shape[1] == attrs.integer(Attr::kHeads) * attrs.integer(Attr::kHeadDim),
          "rope: width is heads * head_dim");
  require(in[1]->shape == Shape{in[1]->shape[0], attrs.integer(Attr::kRopeDim) / 2, 2},
          "rope: table is [S, rope_dim/2, 2]");
  require(in[0]->shape[0] % in[1]->shape[0] == 0, "rope: rows are whole sequences");
  return {like(*in[0])};
}

std::vector<Tensor> infer_swiglu_bwd(const Tensors& in, const Attrs&, DType) {
  return {like(*in[0]), like(*in[1])};
}

std::vector<Tensor> infer_rows(const Tensors& in, const Attrs& attrs, DType) {
  const int64_t begin = attrs.integer(Attr::kBegin), end = attrs.integer(Attr::kEnd);
  require(0 <= begin && begin < end && end <= in[0]->shape[0], "rows: range outside the tensor");
  Shape shape = in[0]->shape;
  shape[0] = end - begin;
  return {value(in[0]->dtype, shape)};
}

std::vector<Tensor> infer_linear(const Tensors& in, const Attrs&, DType dtype) {
  require(in[0]->shape[1] == in[1]->shape[1], "linear: x[T,K], weight[N,K]");
  return {value(dtype, {in[0]->shape[0], in[1]->shape[0]})};
}

std::vector<Tensor> infer_linear_dgrad(const Tensors& in, const Attrs&, DType dtype) {
  require(in[0]->shape[1] == in[1]->shape[0], "linear_dgrad: d.y[T,N], weight[N,K]");
  return {value(dtype, {in[0]->shape[0], in[1]->shape[1]})};
}

std::vector<Tensor> infer_linear_wgrad(const Tensors& in, const Attrs&, DType dtype) {
  require(in[0]->shape[0] == in[1]->shape[0], "linear_wgrad: d.y[T,N], x[T,K]");
  return {value(dtype, {in[0]->shape[1], in[1]->shape[1]})};
}

std::vector<Tensor> infer_attention(const Tensors& in, const Attrs& attrs, DType) {
  const int64_t rows = in[0]->shape[0], heads = attrs.integer(Attr::kHeads),
                kv_heads = attrs.integer(Attr::kKvHeads);
  const int64_t head_dim = attrs.integer(Attr::kHeadDim), v_dim = attrs.integer(Attr::kVHeadDim);
  require(heads % kv_heads == 0, "attention: query heads are a multiple of kv heads");
  require(rows % attrs.integer(Attr::kSeq) == 0, "attention: rows are whole sequences");
  require(in[0]->shape == Shape{rows, heads * head_dim} &&
              in[1]->shape == Shape{rows, kv_heads * head_dim} &&
              in[2]->shape == Shape{rows, kv_heads * v_dim},
          "attention: widths are heads * head_dim, kv_heads * head_dim, kv_heads * v_head_dim");
  return {value(in[0]->dtype, {rows, heads * v_dim}), value(DType::kF32, {rows, heads})};
}

std::vector<Tensor> infer_attention_bwd(const Tensors& in, const Attrs&, DType) {
  return {like(*in[0]), like(*in[1]), like(*in[2])};
}

std::vector<Tensor> infer_cross_entropy(const Tensors& in, const Attrs&, DType) {
  require(in[0]->dtype == DType::kF32, "cross_entropy: logits are f32");
  require(in[1]->shape[0] == in[0]->shape[0], "cross_entropy: a target a row");
  return {value(DType::kF32, {1}), value(DType::kF32, {in[0]->shape[0]})};
}

std::vector<Tensor> infer_cross_entropy_bwd(const Tensors& in, const Attrs&, DType dtype) {
  return {value(dtype, in[0]->shape)};
}

std::vector<Tensor> infer_scalar(const Tensors&, const Attrs&, DType) {
  return {value(DType::kF32, {1})};
}

// ---- backward rules --------------------------------------------------------------------------------

void embedding_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kEmbeddingBwd, {op.in[0], g.of_output(0)}, {1});
}

void rms_norm_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRmsNormBwd, {op.in[0], op.in[1], op.out[1], g.of_output(0)}, {0, 1});
}

void add_backward(const Op&, Gradients& g) {
  g.pass_through(0);
  g.pass_through(1);
}

void rope_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kRopeBwd, {g.of_output(0), op.in[1]}, {0}, op.attrs);
}

void swiglu_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kSwigluBwd, {op.in[0], op.in[1], g.of_output(0)}, {0, 1});
}

void rows_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kPutRows, {g.of_output(0)}, {0}, op.attrs);
}

void linear_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kLinearWgrad, {g.of_output(0), op.in[0]}, {1});
  g.emit(OpKind::kLinearDgrad, {g.of_output(0), op.in[1]}, {0});
}

void attention_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kAttentionBwd,
         {op.in[0], op.in[1], op.in[2], op.out[0], op.out[1], g.of_output(0)}, {0, 1, 2}, op.attrs);
}

// The loss is the root: nothing above it, so its gradient needs no gradient of an output.
void cross_entropy_backward(const Op& op, Gradients& g) {
  g.emit(OpKind::kCrossEntropyBwd, {op.in[0], op.out[1], op.in[1], op.in[2]}, {0});
}

// ---- FLOPs as MaxText counts them --------------------------------------------------------------

int64_t linear_flops(const Tensors& in, const Tensors& out, const Attrs&) {
  return 2 * element_count(out[0]->shape) * in[0]->shape[1];
}

int64_t linear_wgrad_flops(const Tensors& in, const Tensors& out, const Attrs&) {
  return 2 * element_count(out[0]->shape) * in[0]->shape[0];
}

// Two products over the causal half of S x S for each head.
int64_t attention_flops(const Tensors& in, const Tensors&, const Attrs& a) {
  return in[0]->shape[0] * a.integer(Attr::kSeq) * a.integer(Attr::kHeads) *
         (a.integer(Attr::kHeadDim) + a.integer(Attr::kVHeadDim));
}

// Four products; the fifth, which repeats the scores, is recomputation and is not counted.
int64_t attention_bwd_flops(const Tensors& in, const Tensors& out, const Attrs& a) {
  return 2 * attention_flops(in, out, a);
}

// ---- tolerances ------------------------------------------------------------------------------------
// Relative to the output's largest magnitude. f32 has 24 bits (6e-8 a rounding), bf16 8 (3.9e-3).

constexpr Tolerance kExact = {0, 0, "moves values, rounds nothing"};
constexpr Tolerance kRowWise = {2e-6, 8e-3, "a few f32 roundings; one bf16 rounding of the result"};
constexpr Tolerance kReduction = {1e-5, 1e-2, "sums of up to a few thousand f32 terms"};
constexpr Tolerance kProduct = {2e-6, 8e-3, "f32 sums over K, error grows with sqrt(K)"};
constexpr Tolerance kAttentionTolerance = {1e-5, 1.5e-2,
                                           "two products around an exponential; bf16 rounds once"};
constexpr Tolerance kOptimizerTolerance = {1e-6, 8e-3, "element-wise f32; square root and division"};

using enum OpKind;

const std::array<OpInfo, kOpKindCount> kTable = {{
    {kEmbedding, "embedding", 2, 2, 1, 1, {}, infer_embedding, embedding_backward, nullptr, kExact},
    {kEmbeddingBwd, "embedding_bwd", 2, 2, 1, 1, {}, nullptr, nullptr, nullptr, kReduction},
    {kRmsNorm, "rmsnorm", 2, 2, 2, 2, {"rstd"}, infer_rms_norm, rms_norm_backward, nullptr,
     kRowWise},
    {kRmsNormBwd, "rmsnorm_bwd", 4, 4, 2, 2, {}, nullptr, nullptr, nullptr, kReduction},
    {kAdd, "add", 2, 2, 1, 1, {}, infer_add, add_backward, nullptr, kRowWise},
    {kRope, "rope", 2, 2, 1, 1, {}, infer_rope, rope_backward, nullptr, kRowWise},
    {kRopeBwd, "rope_bwd", 2, 2, 1, 1, {}, infer_rope, nullptr, nullptr, kRowWise},
    {kSwiglu, "swiglu", 2, 2, 1, 1, {}, infer_add, swiglu_backward, nullptr, kRowWise},
    {kSwigluBwd, "swiglu_bwd", 3, 3, 2, 2, {}, infer_swiglu_bwd, nullptr, nullptr, kRowWise},
    {kRows, "rows", 1, 1, 1, 1, {}, infer_rows, rows_backward, nullptr, kExact},
    {kPutRows, "put_rows", 1, 1, 1, 1, {}, nullptr, nullptr, nullptr, kExact},
    {kLinear, "linear", 2, 2, 1, 1, {}, infer_linear, linear_backward, linear_flops, kProduct},
    {kLinearDgrad, "linear_dgrad", 2, 2, 1, 1, {}, infer_linear_dgrad, nullptr, linear_flops,
     kProduct},
    {kLinearWgrad, "linear_wgrad", 2, 2, 1, 1, {}, infer_linear_wgrad, nullptr, linear_wgrad_flops,
     kProduct},
    {kAttention, "attention", 3, 3, 2, 2, {"lse"}, infer_attention, attention_backward,
     attention_flops, kAttentionTolerance},
    {kAttentionBwd, "attention_bwd", 6, 6, 3, 3, {}, infer_attention_bwd, nullptr,
     attention_bwd_flops, kAttentionTolerance},
    {kCrossEntropy, "cross_entropy", 3, 3, 2, 2, {"lse"}, infer_cross_entropy,
     cross_entropy_backward, nullptr, kReduction},
    {kCrossEntropyBwd, "cross_entropy_bwd", 4, 4, 1, 1, {}, infer_cross_entropy_bwd, nullptr,
     nullptr, kRowWise},
    {kSumSquares, "sum_squares", 1, 1, 1, 1, {}, infer_scalar, nullptr, nullptr, kRowWise},
    {kAdamW, "adamw", 3, 3, 3, 4, {}, nullptr, nullptr, nullptr, kOptimizerTolerance},
    {kCopy, "copy", 1, 1, 1, 1, {}, infer_same, nullptr, nullptr, kExact},
    {kFree, "free", 1, 1, 0, 0, {}, nullptr, nullptr, nullptr, kExact},
}};

}  // namespace

const OpInfo& op_info(OpKind kind) { return kTable[static_cast<size_t>(kind)]; }

OpKind op_named(std::string_view name) {
  for (const OpInfo& info : kTable) {
    if (info.name == name) return info.kind;
  }
  throw VerifyError("no op is named " + std::string(name));
}

int64_t op_bytes(const Tensors& in, const Tensors& out, const std::vector<bool>& accumulate) {
  int64_t bytes = 0;
  for (const Tensor* tensor : in) bytes += tensor->bytes();
  for (size_t i = 0; i < out.size(); ++i) bytes += out[i]->bytes() * (accumulate[i] ? 2 : 1);
  return bytes;
}

}  // namespace spillway
