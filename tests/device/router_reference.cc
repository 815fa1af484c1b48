// The reference of the router's ops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tests/device/moe_reference.h"

namespace spillway {
namespace {

int64_t index(const Array& indices, int64_t at) {
  return static_cast<int64_t>(indices.values[at]);
}

std::vector<double> softmax(const Array& logits, int64_t t) {
  std::vector<double> p(logits.width());
  double highest = logits.at(t, 0), sum = 0;
  for (int64_t e = 0; e < logits.width(); ++e) highest = std::max(highest, logits.at(t, e));
  for (int64_t e = 0; e < logits.width(); ++e) sum += p[e] = std::exp(logits.at(t, e) - highest);
  for (double& value : p) value /= sum;
  return p;
}

std::vector<double> scores_of(const Array& logits, int64_t t, const Attrs& a) {
  if (a.integer(Attr::kSigmoid) == 0) return softmax(logits, t);
  std::vector<double> s(logits.width());
  for (int64_t e = 0; e < logits.width(); ++e) s[e] = 1 / (1 + std::exp(-logits.at(t, e)));
  return s;
}

// The `count` highest among [begin, end), in descending order; ties to the lower index.
std::vector<int64_t> highest(const std::vector<double>& values, int64_t begin, int64_t end,
                             int64_t count) {
  std::vector<int64_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b])) return !std::isnan(values[b]);
    return values[a] > values[b];
  });
  order.resize(count);
  return order;
}

std::vector<int64_t> chosen_of(std::vector<double> ranked, const Attrs& a) {
  const auto experts = static_cast<int64_t>(ranked.size());
  const int64_t groups = a.integer(Attr::kGroups), size = experts / groups;
  std::vector<double> group_values(groups);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t e : highest(ranked, g * size, (g + 1) * size, a.integer(Attr::kGroupTop))) {
      group_values[g] += ranked[e];
    }
  }
  std::vector<bool> in(groups, false);
  for (int64_t g : highest(group_values, 0, groups, a.integer(Attr::kTopkGroups))) in[g] = true;
  for (int64_t e = 0; e < experts; ++e) {
    if (!in[e / size]) ranked[e] = -INFINITY;
  }
  return highest(ranked, 0, experts, a.integer(Attr::kTopK));
}

double divisor(const std::vector<double>& scores, const Array& experts, int64_t t, const Attrs& a) {
  if (a.integer(Attr::kNormalize) == 0) return 1;
  double sum = 1e-20;
  const int64_t k = experts.width();
  for (int64_t j = 0; j < k; ++j) sum += scores[index(experts, t * k + j)];
  return sum;
}

Arrays route(const Arrays& in, const Attrs& a) {
  const Array& logits = in[0];
  const int64_t k = a.integer(Attr::kTopK), E = logits.width();
  Array weights({logits.rows(), k}), experts({logits.rows(), k});
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const std::vector<double> scores = scores_of(logits, t, a);
    std::vector<double> ranked = scores;
    for (int64_t e = 0; e < E && in.size() > 1; ++e) ranked[e] += in[1].values[e];
    const std::vector<int64_t> chosen = chosen_of(ranked, a);
    for (int64_t j = 0; j < k; ++j) {
      const bool balanced = a.integer(Attr::kBalanced) != 0;
      experts.at(t, j) = static_cast<double>(balanced ? (t * k + j) % E : chosen[j]);
    }
    for (int64_t j = 0; j < k; ++j) {
      weights.at(t, j) = a.real(Attr::kScale) * scores[index(experts, t * k + j)] /
                         divisor(scores, experts, t, a);
    }
  }
  return {weights, experts};
}

// d: the gradient of token t's scores.
void add_through_scores(const Array& logits, int64_t t, const Attrs& a,
                        const std::vector<double>& d, Array& d_logits) {
  const std::vector<double> s = scores_of(logits, t, a);
  const bool sigmoid = a.integer(Attr::kSigmoid) != 0;
  for (int64_t e = 0; e < logits.width(); ++e) {
    for (int64_t i = 0; i < logits.width(); ++i) {
      const bool same = i == e;
      const double slope = sigmoid ? same * s[e] * (1 - s[e]) : s[i] * (same - s[e]);
      d_logits.at(t, e) += d[i] * slope;
    }
  }
}

Arrays route_bwd(const Arrays& in, const Attrs& a) {
  const Array &logits = in[0], &experts = in[1], &d_weights = in[2];
  const int64_t k = experts.width();
  Array d_logits(logits.shape);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const std::vector<double> s = scores_of(logits, t, a);
    const double D = divisor(s, experts, t, a), scale = a.real(Attr::kScale);
    std::vector<double> d(logits.width());
    for (int64_t j = 0; j < k; ++j) {
      const int64_t e = index(experts, t * k + j);
      d[e] += scale / D * d_weights.at(t, j);
      for (int64_t i = 0; i < k && a.integer(Attr::kNormalize) != 0; ++i) {
        d[index(experts, t * k + i)] -= scale * s[e] / (D * D) * d_weights.at(t, j);
      }
    }
    add_through_scores(logits, t, a, d, d_logits);
  }
  return {d_logits};
}

// f_e of the sequence that starts at token `first`.
std::vector<double> shares(const Array& experts, int64_t first, int64_t E, const Attrs& a) {
  const int64_t S = a.integer(Attr::kSeq), k = experts.width();
  std::vector<double> f(E);
  for (int64_t i = first * k; i < (first + S) * k; ++i) {
    f[index(experts, i)] += static_cast<double>(E) / static_cast<double>(k * S);
  }
  return f;
}

double log_sum_exp(const Array& logits, int64_t t) {
  double sum = 0;
  for (int64_t e = 0; e < logits.width(); ++e) sum += std::exp(logits.at(t, e));
  return std::log(sum);
}

Arrays router_loss(const Arrays& in, const Attrs& a) {
  const Array &logits = in[0], &experts = in[1];
  const int64_t S = a.integer(Attr::kSeq), E = logits.width();
  double loss = 0;
  for (int64_t first = 0; first < logits.rows(); first += S) {
    const std::vector<double> f = shares(experts, first, E, a);
    std::vector<double> P(E);
    for (int64_t t = first; t < first + S; ++t) {
      const std::vector<double> s = scores_of(logits, t, a);
      const double sum = std::accumulate(s.begin(), s.end(), 0.0);
      for (int64_t e = 0; e < E; ++e) P[e] += s[e] / sum / static_cast<double>(S);
      loss += a.real(Attr::kZLoss) * std::pow(log_sum_exp(logits, t), 2);
    }
    for (int64_t e = 0; e < E; ++e) {
      loss += a.real(Attr::kBalanceLoss) * static_cast<double>(S) * f[e] * P[e];
    }
  }
  Array y({1});
  y.values[0] = loss * in[2].values[0];
  return {y};
}

Arrays router_loss_bwd(const Arrays& in, const Attrs& a) {
  const Array &logits = in[0], &experts = in[1];
  const int64_t S = a.integer(Attr::kSeq), E = logits.width();
  const double scale = in[2].values[0];
  Array d_logits(logits.shape);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const std::vector<double> f = shares(experts, t / S * S, E, a), s = scores_of(logits, t, a);
    const double sum = std::accumulate(s.begin(), s.end(), 0.0);
    const double share = std::inner_product(s.begin(), s.end(), f.begin(), 0.0) / sum;
    std::vector<double> d(E);
    const double factor = scale * a.real(Attr::kBalanceLoss) / sum;
    for (int64_t e = 0; e < E; ++e) d[e] = factor * (f[e] - share);
    add_through_scores(logits, t, a, d, d_logits);
    const std::vector<double> p = softmax(logits, t);
    const double pull = scale * a.real(Attr::kZLoss) * 2 * log_sum_exp(logits, t);
    for (int64_t e = 0; e < E; ++e) d_logits.at(t, e) += pull * p[e];
  }
  return {d_logits};
}

Arrays router_bias_update(const Arrays& in, const Attrs& a) {
  Array bias = in[1];
  const double rate = static_cast<float>(a.real(Attr::kRate));
  double mean = 0;
  for (int64_t e = 0; e < bias.rows(); ++e) mean += in[0].values[e];
  mean /= static_cast<double>(bias.rows());
  for (int64_t e = 0; e < bias.rows(); ++e) {
    const double below = mean - in[0].values[e];
    if (std::abs(below) > 1e-9) bias.values[e] += below > 0 ? rate : -rate;
  }
  return {bias};
}

}  // namespace

Arrays router_reference(OpKind kind, const Arrays& in, const Attrs& attrs) {
  switch (kind) {
    case OpKind::kRoute: return route(in, attrs);
    case OpKind::kRouteBwd: return route_bwd(in, attrs);
    case OpKind::kRouterLoss: return router_loss(in, attrs);
    case OpKind::kRouterLossBwd: return router_loss_bwd(in, attrs);
    case OpKind::kRouterBiasUpdate: return router_bias_update(in, attrs);
    default: throw std::logic_error("no reference of this op");
  }
}

}  // namespace spillway
