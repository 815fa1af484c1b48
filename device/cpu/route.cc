// The choice of each token's experts and their weights.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/router_scores.h"

namespace spillway::cpu {
namespace {

// The highest of the candidates offered, in descending order. The earlier offer wins a tie. A NaN
// ranks above all numbers: a broken logit shows in the weights and does not hide behind the others.
class Highest {
 public:
  Highest(int64_t size, float* values, int32_t* candidates)
      : size_(size), values_(values), candidates_(candidates) {}

  void offer(float value, int64_t candidate) {
    int64_t at = count_;
    while (at > 0 && above(value, values_[at - 1])) --at;
    if (at == size_) return;
    if (count_ < size_) ++count_;
    std::copy_backward(values_ + at, values_ + count_ - 1, values_ + count_);
    std::copy_backward(candidates_ + at, candidates_ + count_ - 1, candidates_ + count_);
    values_[at] = value;
    candidates_[at] = static_cast<int32_t>(candidate);
  }

  [[nodiscard]] float sum() const {
    float sum = 0;
    for (int64_t i = 0; i < count_; ++i) sum += values_[i];
    return sum;
  }

 private:
  static bool above(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

  int64_t size_, count_ = 0;
  float* values_;
  int32_t* candidates_;
};

struct RouteAttrs {
  int64_t top_k, groups, topk_groups, group_top;
  bool sigmoid, normalize, balanced;
  float scale;

  explicit RouteAttrs(const Attrs& a)
      : top_k(a.integer(Attr::kTopK)), groups(a.integer(Attr::kGroups)),
        topk_groups(a.integer(Attr::kTopkGroups)), group_top(a.integer(Attr::kGroupTop)),
        sigmoid(a.integer(Attr::kSigmoid) != 0), normalize(a.integer(Attr::kNormalize) != 0),
        balanced(a.integer(Attr::kBalanced) != 0),
        scale(static_cast<float>(a.real(Attr::kScale))) {}

  // What the weights' scores are divided by.
  [[nodiscard]] float divisor(const float* scores, const int32_t* chosen) const {
    if (!normalize) return 1;
    float sum = 0;
    for (int64_t j = 0; j < top_k; ++j) sum += scores[chosen[j]];
    return sum + kScoreSumFloor;
  }
};

class Route {
 public:
  explicit Route(const BoundOp& op)
      : logits_(op.in[0]), weights_(op.out[0]), experts_(op.out[1]), attrs_(op.attrs),
        bias_(op.in.size() > 1 ? elements_of<float>(op.in[1]) : nullptr),
        accumulate_(op.accumulate[0]), threads_(op.threads),
        longest_(std::max({attrs_.top_k, attrs_.topk_groups, attrs_.group_top})),
        space_(op, 0, 2 * logits_.width() + 4 * longest_) {}

  void operator()() const {
    const int64_t experts = logits_.width(), k = attrs_.top_k;
    for_each_row(logits_.rows(), kRowCost * experts, threads_, [&](int64_t row, int thread) {
      float *scores = space_.of(thread), *ranked = scores + experts, *buffer = ranked + experts;
      int32_t* chosen = elements_of<int32_t>(experts_, row * k);
      router_scores(elements_of<float>(logits_, row * experts), experts, attrs_.sigmoid, scores);
      if (attrs_.balanced) {
        for (int64_t j = 0; j < k; ++j) chosen[j] = static_cast<int32_t>((row * k + j) % experts);
      } else {
        for (int64_t e = 0; e < experts; ++e) ranked[e] = scores[e] + (bias_ ? bias_[e] : 0.0f);
        choose(ranked, buffer, chosen);
      }
      const float factor = attrs_.scale / attrs_.divisor(scores, chosen);
      for (int64_t j = 0; j < k; ++j) buffer[j] = scores[chosen[j]] * factor;
      store(weights_, row * k, k, accumulate_, buffer);
    });
  }

 private:
  static constexpr int64_t kRowCost = 8;  // an expert costs as much as some elements of a sum do

  void choose(const float* ranked, float* buffer, int32_t* chosen) const {
    const int64_t size = logits_.width() / attrs_.groups;  // experts of a group
    float *values = buffer, *group_values = values + longest_;
    auto* candidates = reinterpret_cast<int32_t*>(group_values + longest_);
    int32_t* groups = candidates + longest_;
    std::iota(groups, groups + attrs_.topk_groups, 0);
    if (attrs_.topk_groups < attrs_.groups) {
      Highest best_groups(attrs_.topk_groups, group_values, groups);
      for (int64_t g = 0; g < attrs_.groups; ++g) {
        Highest best(attrs_.group_top, values, candidates);
        for (int64_t e = g * size; e < (g + 1) * size; ++e) best.offer(ranked[e], e);
        best_groups.offer(best.sum(), g);
      }
      std::sort(groups, groups + attrs_.topk_groups);
    }
    Highest best(attrs_.top_k, values, chosen);
    for (int64_t g = 0; g < attrs_.topk_groups; ++g) {
      for (int64_t e = groups[g] * size; e < (groups[g] + 1) * size; ++e) best.offer(ranked[e], e);
    }
  }

  TensorRef logits_, weights_, experts_;
  RouteAttrs attrs_;
  const float* bias_;
  bool accumulate_;
  int threads_;
  int64_t longest_;
  Workspace space_;
};

// w_j = scale * s_j / D, D = sum_i s_i + floor: d.s_j = scale / D * (d.w_j - sum_i d.w_i s_i / D).
struct RouteBwd {
  TensorRef logits, experts, d_weights, d_logits;
  RouteAttrs attrs;
  bool accumulate;
  int threads;
  Workspace space;

  explicit RouteBwd(const BoundOp& op)
      : logits(op.in[0]), experts(op.in[1]), d_weights(op.in[2]), d_logits(op.out[0]),
        attrs(op.attrs), accumulate(op.accumulate[0]), threads(op.threads),
        space(op, 0, 2 * logits.width()) {}

  void operator()() const {
    const int64_t count = logits.width(), k = attrs.top_k;
    for_each_row(logits.rows(), count, threads, [&](int64_t row, int thread) {
      float *scores = space.of(thread), *d = scores + count;
      const int32_t* chosen = elements_of<int32_t>(experts, row * k);
      router_scores(elements_of<float>(logits, row * count), count, attrs.sigmoid, scores);
      d_scores(scores, chosen, elements_of<float>(d_weights, row * k), d);
      router_scores_bwd(scores, count, attrs.sigmoid, d);
      store(d_logits, row * count, count, accumulate, d);
    });
  }

  void d_scores(const float* scores, const int32_t* chosen, const float* d_w, float* d) const {
    const float divisor = attrs.divisor(scores, chosen), factor = attrs.scale / divisor;
    float pull = 0;
    if (attrs.normalize) {
      for (int64_t j = 0; j < attrs.top_k; ++j) pull += d_w[j] * (scores[chosen[j]] / divisor);
    }
    std::fill_n(d, logits.width(), 0.0f);
    for (int64_t j = 0; j < attrs.top_k; ++j) d[chosen[j]] += factor * (d_w[j] - pull);
  }
};

}  // namespace

Kernel bind_route(const BoundOp& op) { return Route(op); }
Kernel bind_route_bwd(const BoundOp& op) { return RouteBwd(op); }

}  // namespace spillway::cpu
