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
  kEmbedding,     // y[T,d] = embedding(tokens[T] i32, weight[V,d]) [{begin}]: begin: the first token
                  //   that weight holds; a token outside then gives a row of zeros, else an error
  kEmbeddingBwd,  // d.weight[V,d] = embedding_bwd(tokens, d.y) [{begin}]: rows summed in token order
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
  // -- matrix products. [{fp8}]: operands narrowed to fp8, with a scale for each ------------------
  kLinear,       // y[T,N] = x[T,K] . weight[N,K]^T
  kLinearDgrad,  // d.x[T,K] = d.y[T,N] . weight[N,K]
  kLinearWgrad,  // d.weight[N,K] = d.y[T,N]^T . x[T,K]
  // -- attention ------------------------------------------------------------------------------
  kAttention,     // context[T,H*vd], lse[T,H] f32 = attention(q[T,H*hd], k[T,K*hd], v[T,K*vd])
                  //   {heads, kv_heads, head_dim, v_head_dim, seq, scale}: causal inside each
                  //   sequence of `seq` rows; query head h reads kv head h / (H/K)
  kAttentionBwd,  // d.q, d.k, d.v = attention_bwd(q, k, v, context, lse, d.context)
  // -- multi-head latent attention: n = head_dim - rope_dim, r = rope_dim, v = v_head_dim -----------
  kColumns,      // y = x[:, begin:end] = columns(x) {begin, end}
  kPutColumns,   // d.x[:, begin:end] = put_columns(d.y) {begin, end}: like put_rows
  kConcat,       // y = concat(a, b) {begin, end}: columns of a, then columns of b; begin is the width
                 //   of a, end that of y
  kMlaKey,       // key[T,H*(n+r)] = mla_key(kv_up[T,H*(n+v)], k_rot[T,r]) {heads, head_dim, rope_dim,
                 //   v_head_dim}: each head's key is its own first n columns, then the shared k_rot
  kMlaKeyBwd,    // d.kv_up, d.k_rot = mla_key_bwd(d.key): of d.kv_up only the key columns are written
  kMlaValue,     // value[T,H*v] = mla_value(kv_up): each head's last v columns
  kMlaValueBwd,  // d.kv_up = mla_value_bwd(d.value): only the value columns are written
  // -- mixture of experts: E experts, k chosen a token, R = T*k rows (the bound; dropless: exact) -----
  kRoute,     // weights[T,k] f32, experts[T,k] i32 = route(logits[T,E] f32[, bias[E] f32]) {top_k,
              //   groups, topk_groups, group_top, sigmoid, normalize, scale, balanced}: scores =
              //   sigmoid or softmax; choice by score + bias within the topk_groups groups whose
              //   group_top best sum highest; ties to the lower index; weights = scale * score
              //   [/ (their sum + 1e-20)]; choices in descending order of score + bias, NaN above
              //   every number. balanced: token t's choice j is expert (t*k + j) % E
  kRouteBwd,  // d.logits = route_bwd(logits, experts, d.weights): through scores, not through choice
  kRouterLoss,     // loss[1] = router_loss(logits, experts, scalars) {seq, top_k, sigmoid,
                   //   balance_loss, z_loss}: per sequence balance_loss * S * sum_e f_e P_e, plus z_loss
                   //   * sum_t logsumexp(logits_t)^2, all times scalars[0]; f_e = E/(k S) * tokens
                   //   that chose e, P_e = mean of the scores normalised over experts
  kRouterLossBwd,  // d.logits = router_loss_bwd(logits, experts, scalars)
  kDispatchPlan,   // order[R], offsets[E+1], place[R], all i32 = dispatch_plan(experts) {experts, seq,
                   //   capacity}: row r < offsets[E] holds choice order[r] = t*k + j, rows sorted by
                   //   expert, then by token; expert e's rows are offsets[e]..offsets[e+1]; place is the
                   //   inverse, -1 for a choice dropped because its expert already had `capacity`
                   //   rows of that sequence (0: no limit); order past offsets[E] is -1
  kCountExperts,   // load[E+1] i32 = count_experts(experts, offsets): choices of each expert before
                   //   dropping; last: choices dropped
  kDispatch,       // rows[R,d] = dispatch(x[T,d], order, offsets, place): row r = x[order[r] / k];
                   //   rows past offsets[E] are 0; place is for the gradient
  kDispatchBwd,    // d.x[T,d] = dispatch_bwd(d.rows, place): sum over a token's rows, in order of choice
  kGroupedLinear,       // y[R,N] = grouped_linear(x[R,K], weight[E,N,K], offsets): each expert's rows
                        //   times its weight^T; rows past offsets[E] are 0.
                        //   [{rows}]: as many are expected, where R is a bound; it changes no value
  kGroupedLinearDgrad,  // d.x[R,K] = grouped_linear_dgrad(d.y[R,N], weight, offsets)
  kGroupedLinearWgrad,  // d.weight[E,N,K] = grouped_linear_wgrad(d.y, x, offsets): 0 for an expert
                        //   without rows
  kCombine,     // y[T,d] = combine(rows[R,d], weights[T,k], place): sum_j weights[t,j] * rows[place],
                //   in order of choice; dropped choices add nothing
  kCombineBwd,  // d.rows[R,d], d.weights[T,k] = combine_bwd(rows, weights, place, d.y)
  kRouterBiasUpdate,  // bias += rate * sign(mean load - load_e) = router_bias_update(load) {rate}
  // -- experts on other ranks: P ranks, rank p has experts [p*E/P, (p+1)*E/P) and rows [B,d] for them;
  //    all_offsets[P,E+1] are the ranks' dispatch plans, one after another --------------------------
  kExpertOffsets,  // offsets[E/P+1] i32 = expert_offsets(all_offsets) {part, rows}: where each of part's
                   //   experts begins among the rows it gets, sorted by expert, then by rank; nothing
                   //   passes rows (= B)
  kExchangeRows,   // y[B,d] = exchange_rows(x[R,d], all_offsets) {axes, parts, part, rows, drop}: every row
                   //   goes to its expert's rank; rows past the last one are 0. What would land past
                   //   B: drop 1: is left out, drop 0: ends the run with an error that names both
  kReturnRows,     // x[R,d] = return_rows(y[B,d], all_offsets) {axes, parts, part, rows, drop}: back to where
                   //   exchange_rows took them from; rows that were left out, and past offsets[E], are 0
  kCountOverflow,  // load[E+1] i32 = count_overflow(all_offsets) {parts, part, rows}: 0, and last: part's own
                   //   rows that were left out
  // -- collectives, over the ranks that differ only in `axes` (parallel/mesh.h), in rank order. Part p
  //    of N elements is elements [p*s, min((p+1)*s, N)), s = ceil(N/parts). Of these and of the rows
  //    of experts only reduce_scatter may accumulate ------------------------------------------------
  kAllGather,      // y = all_gather(x) {axes, parts}: x is one's own part of y, zeros behind it up to s
  kReduceScatter,  // y[s] = reduce_scatter(x) {axes, parts}: own part of the sum of all x, f32 sums in
                   //   rank order; 0 behind it up to s
  kAllReduce,      // x = all_reduce(x) {axes, parts}: in place, the sum of all x, in rank order
  // -- loss -----------------------------------------------------------------------------------
  kNextTokens,       // tokens[T], targets[T], both i32 = next_tokens(targets[T]) {seq}: what
                     //   multi-token prediction reads and predicts: each position's target as a token (0
                     //   for none), and the target of the position behind it (-100 at a sequence's end
                     //   and where there is no token)
  kCrossEntropy,     // loss[1], lse[T] f32 = cross_entropy(logits[T,V] f32, targets[T] i32,
                     //   scalars) [{scale}]: sum over valid tokens of (lse - logit[target]) *
                     //   scalars[0] * scale; a target < 0 is not valid
  kCrossEntropyBwd,  // d.logits = cross_entropy_bwd(logits, lse, targets, scalars) [{scale, begin,
                     //   end}]: (softmax - onehot) * scalars[0] * scale; 0 for rows that are not
                     //   valid. begin, end: column j is token begin + j; 0 where that is >= end
  kVocabStats,  // stats[T,2] f32 = vocab_stats(logits[T,V'] f32, targets) {begin, end}: of the columns
                //   whose token begin + j is below end: logsumexp (the lowest float: there is none), and the
                //   target's logit (0: not among them)
  kVocabLoss,   // loss[1], lse[T] f32 = vocab_loss(stats[P*T,2], targets[T], scalars) [{scale}]: as
                //   cross_entropy, of the stats of P parts of the vocabulary, one after another
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
  kBeta1, kBeta2, kWeightDecay, kMaxNorm, kTopK, kGroups, kTopkGroups, kGroupTop, kSigmoid,
  kNormalize, kBalanced, kBalanceLoss, kZLoss, kExperts, kCapacity, kRate, kAxes, kParts, kPart,
  kRows, kDrop, kFp8,
};
inline constexpr int kAttrCount = static_cast<int>(Attr::kFp8) + 1;
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
