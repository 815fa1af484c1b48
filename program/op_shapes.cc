// Shape rules of the op table.
#include "program/error.h"
#include "program/op_rules.h"

namespace spillway::rules {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw VerifyError(what);
}

Tensor value(DType dtype, Shape shape) { return {.name = "", .dtype = dtype, .shape = shape}; }

Tensor like(const Tensor& tensor) { return value(tensor.dtype, tensor.shape); }

}  // namespace

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

std::vector<Tensor> infer_columns(const Tensors& in, const Attrs& attrs, DType) {
  const int64_t begin = attrs.integer(Attr::kBegin), end = attrs.integer(Attr::kEnd);
  require(0 <= begin && begin < end && end <= in[0]->shape[1], "columns: range outside the tensor");
  return {value(in[0]->dtype, {in[0]->shape[0], end - begin})};
}

std::vector<Tensor> infer_concat(const Tensors& in, const Attrs&, DType) {
  require(in[0]->shape[0] == in[1]->shape[0], "concat: rows differ");
  return {value(in[0]->dtype, {in[0]->shape[0], in[0]->shape[1] + in[1]->shape[1]})};
}

std::vector<Tensor> infer_next_tokens(const Tensors& in, const Attrs& attrs, DType) {
  require(in[0]->shape[0] % attrs.integer(Attr::kSeq) == 0, "next_tokens: rows are whole sequences");
  return {like(*in[0]), like(*in[0])};
}

namespace {

// Widths of one head in MLA: own key columns, rotated key columns, value columns.
struct MlaWidths {
  explicit MlaWidths(const Attrs& attrs)
      : heads(attrs.integer(Attr::kHeads)), rotated(attrs.integer(Attr::kRopeDim)),
        own(attrs.integer(Attr::kHeadDim) - rotated), value(attrs.integer(Attr::kVHeadDim)) {}
  int64_t heads, rotated, own, value;
};

}  // namespace

std::vector<Tensor> infer_mla_key(const Tensors& in, const Attrs& attrs, DType) {
  const MlaWidths w(attrs);
  const int64_t rows = in[0]->shape[0];
  require(in[0]->shape[1] == w.heads * (w.own + w.value), "mla_key: kv_up is [T, H*(n+v)]");
  require(in[1]->shape == Shape{rows, w.rotated}, "mla_key: k_rot is [T, r]");
  return {value(in[0]->dtype, {rows, w.heads * (w.own + w.rotated)})};
}

std::vector<Tensor> infer_mla_value(const Tensors& in, const Attrs& attrs, DType) {
  const MlaWidths w(attrs);
  require(in[0]->shape[1] == w.heads * (w.own + w.value), "mla_value: kv_up is [T, H*(n+v)]");
  return {value(in[0]->dtype, {in[0]->shape[0], w.heads * w.value})};
}

std::vector<Tensor> infer_route(const Tensors& in, const Attrs& attrs, DType) {
  const int64_t rows = in[0]->shape[0], experts = in[0]->shape[1];
  const int64_t groups = attrs.integer(Attr::kGroups), top_k = attrs.integer(Attr::kTopK);
  require(in[0]->dtype == DType::kF32, "route: logits are f32");
  require(in.size() == 1 || in[1]->shape == Shape{experts}, "route: a bias an expert");
  require(experts % groups == 0, "route: groups of equal size");
  require(attrs.integer(Attr::kTopkGroups) * (experts / groups) >= top_k,
          "route: the chosen groups hold at least top_k experts");
  return {value(DType::kF32, {rows, top_k}), value(DType::kI32, {rows, top_k})};
}

std::vector<Tensor> infer_dispatch_plan(const Tensors& in, const Attrs& attrs, DType) {
  const int64_t rows = element_count(in[0]->shape);
  return {value(DType::kI32, {rows}), value(DType::kI32, {attrs.integer(Attr::kExperts) + 1}),
          value(DType::kI32, {rows})};
}

std::vector<Tensor> infer_count_experts(const Tensors& in, const Attrs&, DType) {
  return {value(DType::kI32, {in[1]->shape[0]})};  // a count an expert, and the dropped choices
}

std::vector<Tensor> infer_dispatch(const Tensors& in, const Attrs&, DType) {
  require(in[1]->shape[0] % in[0]->shape[0] == 0, "dispatch: top_k rows a token");
  return {value(in[0]->dtype, {in[1]->shape[0], in[0]->shape[1]})};
}

std::vector<Tensor> infer_grouped_linear(const Tensors& in, const Attrs&, DType dtype) {
  require(in[1]->shape.size() == 3 && in[0]->shape[1] == in[1]->shape[2],
          "grouped_linear: x[R,K], weight[E,N,K]");
  require(in[2]->shape == Shape{in[1]->shape[0] + 1}, "grouped_linear: offsets[E+1]");
  return {value(dtype, {in[0]->shape[0], in[1]->shape[1]})};
}

std::vector<Tensor> infer_combine(const Tensors& in, const Attrs&, DType) {
  require(element_count(in[1]->shape) == in[0]->shape[0], "combine: a row a choice");
  return {value(in[0]->dtype, {in[1]->shape[0], in[0]->shape[1]})};
}

std::vector<Tensor> infer_combine_bwd(const Tensors& in, const Attrs&, DType) {
  return {like(*in[0]), like(*in[1])};
}

std::vector<Tensor> infer_vocab_stats(const Tensors& in, const Attrs&, DType) {
  require(in[0]->dtype == DType::kF32, "vocab_stats: logits are f32");
  require(in[1]->shape[0] == in[0]->shape[0], "vocab_stats: a target a row");
  return {value(DType::kF32, {in[0]->shape[0], 2})};
}

std::vector<Tensor> infer_vocab_loss(const Tensors& in, const Attrs&, DType) {
  require(in[0]->shape[0] % in[1]->shape[0] == 0, "vocab_loss: stats[P*T,2], targets[T]");
  return {value(DType::kF32, {1}), value(DType::kF32, {in[1]->shape[0]})};
}

std::vector<Tensor> infer_expert_offsets(const Tensors& in, const Attrs&, DType) {
  const int64_t parts = in[0]->shape[0], experts = in[0]->shape[1] - 1;
  require(experts % parts == 0, "expert_offsets: as many experts a rank");
  return {value(DType::kI32, {experts / parts + 1})};
}

std::vector<Tensor> infer_exchange_rows(const Tensors& in, const Attrs& attrs, DType) {
  require(in[1]->shape[0] == attrs.integer(Attr::kParts), "exchange_rows: all_offsets[P,E+1]");
  return {value(in[0]->dtype, {attrs.integer(Attr::kRows), in[0]->shape[1]})};
}

std::vector<Tensor> infer_count_overflow(const Tensors& in, const Attrs&, DType) {
  return {value(DType::kI32, {in[0]->shape[1]})};
}

std::vector<Tensor> infer_all_gather(const Tensors& in, const Attrs& attrs, DType) {
  Shape shape = in[0]->shape;
  if (shape.size() == 1) shape.insert(shape.begin(), 1);  // vectors become the rows of a matrix
  shape[0] *= attrs.integer(Attr::kParts);
  return {value(in[0]->dtype, shape)};
}

std::vector<Tensor> infer_reduce_scatter(const Tensors& in, const Attrs& attrs, DType) {
  Shape shape = in[0]->shape;
  require(shape[0] % attrs.integer(Attr::kParts) == 0, "reduce_scatter: as many rows a part");
  shape[0] /= attrs.integer(Attr::kParts);
  return {value(in[0]->dtype, shape)};
}

}  // namespace spillway::rules
