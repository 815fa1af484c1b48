// What attention forward and backward share: shapes, and heads of a [T, heads * dim] tensor as
// matrices.
#pragma once

#include "device/cpu/element.h"
#include "device/cpu/kernel.h"
#include "device/cpu/sgemm.h"

namespace spillway::cpu {

// Queries are taken in blocks of this many rows. A block meets its whole causal prefix of keys at once,
// so scores take kQueries x seq elements a thread, and never seq x seq.
inline constexpr int64_t kQueries = 64;

struct AttentionShape {
  int64_t heads, kv_heads, head_dim, v_head_dim, seq, sequences;
  float scale;

  explicit AttentionShape(const BoundOp& op)
      : heads(op.attrs.integer(Attr::kHeads)), kv_heads(op.attrs.integer(Attr::kKvHeads)),
        head_dim(op.attrs.integer(Attr::kHeadDim)), v_head_dim(op.attrs.integer(Attr::kVHeadDim)),
        seq(op.attrs.integer(Attr::kSeq)), sequences(op.in[0].rows() / seq),
        scale(static_cast<float>(op.attrs.real(Attr::kScale))) {}

  [[nodiscard]] int64_t group() const { return heads / kv_heads; }  // query heads of a kv head
};

// One head of one sequence.
struct Head {
  const TensorRef& tensor;
  int64_t dim;
  int64_t stride;  // elements between rows
  int64_t first;   // element

  Head(const TensorRef& of, int64_t head_dim, int64_t sequence, int64_t seq, int64_t head)
      : tensor(of), dim(head_dim), stride(of.width()),
        first(sequence * seq * stride + head * head_dim) {}

  // Rows [row, row + rows) as f32, converted into buffer[rows, dim] if they are not.
  [[nodiscard]] Factor load_rows(int64_t row, int64_t rows, float* buffer) const {
    const int64_t at = first + row * stride;
    if (tensor.dtype == DType::kF32) return {elements_of<float>(tensor, at), stride};
    for (int64_t i = 0; i < rows; ++i) load(tensor, at + i * stride, dim, buffer + i * dim);
    return {buffer, dim};
  }

  void store_rows(int64_t row, int64_t rows, bool accumulate, const float* values) const {
    for (int64_t i = 0; i < rows; ++i) {
      store(tensor, first + (row + i) * stride, dim, accumulate, values + i * dim);
    }
  }
};

inline Factor transpose(const Factor& x) { return {x.data, x.stride, !x.transposed}; }

}  // namespace spillway::cpu
