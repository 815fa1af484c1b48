// Operations. This list is the whole vocabulary of Programs and Schedules; program/op_table.h says
// for each what it computes, its shapes, its backward, its FLOPs and its tolerance.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

// Legend: y = op(x, ...). A "weight" is [N, K] (out, in), as Hugging Face stores it. f32 arithmetic
// inside every op; results are rounded to the output's dtype once. Inputs and outputs in order:
enum class OpKind : uint8_t {
  // -- token and row-wise ---------------------------------------------------------------------
  kEmbedding,     // y[T,d] = embedding(tokens[T] i32, weight[V,d])
  kEmbeddingBwd,  // d.weight[V,d] = embedding_bwd(tokens, d.y): rows summed in token order
  kRmsNorm,       // y[T,d], rstd[T] f32 = rmsnorm(x, weight[d]) {eps}
  kRmsNormBwd,    // d.x, d.weight = rmsnorm_bwd(x, weight, rstd, d.y)
  kAdd,           // y = add(a, b)
  kRope,          // y[T,h*hd] = rope(x, table[S, rd/2, 2] f32 = cos,sin) {heads, head_dim, rope_dim,
                  //   interleaved}: the LAST rope_dim of each head turn by the row's position
                  //   (row % S); half-split pairs (i, i+rd/2) or interleaved pairs (2i, 2i+1)
  kRopeBwd,       // d.x = rope_bwd(d.y, table): the inverse turn
  kSwiglu,        // y = silu(gate) * up = swiglu(gate, up)
  kSwigluBwd,     // d.gate, d.up = swiglu_bwd(gate, up, d.y)
  kRows,          // y = x[begin:end] = rows(x) {begin, end}
  kPutRows,       // d.x[begin:end] = put_rows(d.y) {begin, end}: other rows untouched; the ops of one
                  //   Program together cover d.x
  // -- matrix products ------------------------------------------------------------------------
  kLinear,       // y[T,N] = x[T,K] . weight[N,K]^T
  kLinearDgrad,  // d.x[T,K] = d.y[T,N] . weight[N,K]
  kLinearWgrad,  // d.weight[N,K] = d.y[T,N]^T . x[T,K]
  // -- attention ------------------------------------------------------------------------------
  kAttention,     // context[T,H*vd], lse[T,H] f32 = attention(q[T,H*hd], k[T,K*hd], v[T,K*vd])
                  //   {heads, kv_heads, head_dim, v_head_dim, seq, scale}: causal inside each
                  //   sequence of `seq` rows; query head h reads kv head h / (H/K)
  kAttentionBwd,  // d.q, d.k, d.v = attention_bwd(q, k, v, context, lse, d.context)
  // -- loss -----------------------------------------------------------------------------------
  kCrossEntropy,     // loss[1], lse[T] f32 = cross_entropy(logits[T,V] f32, targets[T] i32,
                     //   scalars): sum over valid tokens of (lse - logit[target]) * scalars[0];
                     //   a target < 0 is not valid
  kCrossEntropyBwd,  // d.logits = cross_entropy_bwd(logits, lse, targets, scalars):
                     //   (softmax - onehot) * scalars[0]; 0 for rows that are not valid
  // -- optimizer ------------------------------------------------------------------------------
  kSumSquares,  // s[1] f32 = sum_squares(grad): summed in f64 in a fixed order
  kAdamW,       // param, [master,] m, v updated in place = adamw(grad, norm_sq, scalars)
                //   {beta1, beta2, eps, weight_decay, max_norm}: decoupled decay; grad scaled by
                //   min(1, max_norm / (norm + 1e-6)) (max_norm 0: no clipping); a norm that is not
                //   finite leaves everything untouched. scalars: see StepScalar
  // -- instructions of a Schedule only ----------------------------------------------------------
  kCopy,  // dst = copy(src): between HBM and pinned host memory
  kFree,  // the buffer's bytes may be reused from here on
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::kFree) + 1;

// Entries of the `scalars` step input (f32[4]), written by the host before each step.
enum StepScalar : int {
  kInverseValidTokens = 0,  // 1 / valid target tokens of the whole step, all micro-batches and ranks
  kLearningRate = 1,
  kBiasCorrection1 = 2,  // 1 - beta1^t
  kBiasCorrection2 = 3,  // 1 - beta2^t
  kStepScalarCount = 4,
};

enum class Attr : uint8_t {
  kEps, kHeads, kKvHeads, kHeadDim, kVHeadDim, kRopeDim, kInterleaved, kSeq, kScale, kBegin, kEnd,
  kBeta1, kBeta2, kWeightDecay, kMaxNorm,
};
inline constexpr int kAttrCount = static_cast<int>(Attr::kMaxNorm) + 1;
[[nodiscard]] std::string_view name_of(Attr attr);

// A small ordered set of numbers. Integers up to 2^53 are exact.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<Attr, double>> list) : list_(list) {}
  [[nodiscard]] double real(Attr attr) const;      // throws VerifyError when absent
  [[nodiscard]] int64_t integer(Attr attr) const;  // the same, as an integer
  [[nodiscard]] bool has(Attr attr) const;
  void set(Attr attr, double value);
  [[nodiscard]] const std::vector<std::pair<Attr, double>>& list() const { return list_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<Attr, double>> list_;
};

using TensorId = int32_t;  // index into Program::tensors, or into Schedule::buffers
inline constexpr TensorId kNoTensor = -1;

// One operation. An output with accumulate[i] is read, added to, and written: `y+ = op(...)`.
struct Op {
  OpKind kind = OpKind::kAdd;
  std::vector<TensorId> in;
  std::vector<TensorId> out;
  std::vector<bool> accumulate;  // one per output
  Attrs attrs;
  bool recompute = false;  // placed by remat: its FLOPs are not model FLOPs
};

}  // namespace spillway
