#include "tests/device/reference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/device/moe_reference.h"

namespace spillway {
namespace {

double attr_or(const Attrs& attrs, Attr attr, double otherwise) {
  return attrs.has(attr) ? attrs.real(attr) : otherwise;
}

// The row of a weight that holds a token, -1 when none does.
int64_t row_of(double token, int64_t rows, const Attrs& attrs) {
  const auto row = static_cast<int64_t>(token - attr_or(attrs, Attr::kBegin, 0));
  return row >= 0 && row < rows ? row : -1;
}

Arrays embedding(const Arrays& in, const Attrs& attrs) {
  const Array &tokens = in[0], &weight = in[1];
  Array y({tokens.rows(), weight.width()});
  for (int64_t t = 0; t < y.rows(); ++t) {
    const int64_t row = row_of(tokens.values[t], weight.rows(), attrs);
    for (int64_t i = 0; row >= 0 && i < y.width(); ++i) y.at(t, i) = weight.at(row, i);
  }
  return {y};
}

// Attrs cannot carry a shape: the rows of the weight come as kEnd.
Arrays embedding_bwd(const Arrays& in, const Attrs& attrs) {
  const Array &tokens = in[0], &dy = in[1];
  Array dw({attrs.integer(Attr::kEnd), dy.width()});
  for (int64_t t = 0; t < dy.rows(); ++t) {
    const int64_t row = row_of(tokens.values[t], dw.rows(), attrs);
    for (int64_t i = 0; row >= 0 && i < dy.width(); ++i) dw.at(row, i) += dy.at(t, i);
  }
  return {dw};
}

Arrays rms_norm(const Arrays& in, const Attrs& attrs) {
  const Array &x = in[0], &weight = in[1];
  Array y(x.shape), rstd({x.rows()});
  for (int64_t t = 0; t < x.rows(); ++t) {
    double sum = 0;
    for (int64_t i = 0; i < x.width(); ++i) sum += x.at(t, i) * x.at(t, i);
    const double r = 1 / std::sqrt(sum / static_cast<double>(x.width()) + attrs.real(Attr::kEps));
    rstd.values[t] = r;
    for (int64_t i = 0; i < x.width(); ++i) y.at(t, i) = x.at(t, i) * r * weight.values[i];
  }
  return {y, rstd};
}

Arrays rms_norm_bwd(const Arrays& in, const Attrs&) {
  const Array &x = in[0], &weight = in[1], &rstd = in[2], &dy = in[3];
  Array dx(x.shape), dw(weight.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    const double r = rstd.values[t];
    double dot = 0;
    for (int64_t i = 0; i < x.width(); ++i) dot += dy.at(t, i) * weight.values[i] * x.at(t, i);
    for (int64_t i = 0; i < x.width(); ++i) {
      dx.at(t, i) = r * dy.at(t, i) * weight.values[i] -
                    x.at(t, i) * r * r * r * dot / static_cast<double>(x.width());
      dw.values[i] += dy.at(t, i) * x.at(t, i) * r;
    }
  }
  return {dx, dw};
}

Arrays add(const Arrays& in, const Attrs&) {
  Array y(in[0].shape);
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = in[0].values[i] + in[1].values[i];
  return {y};
}

Array turned(const Array& x, const Array& table, const Attrs& attrs, double direction) {
  const int64_t heads = attrs.integer(Attr::kHeads), head_dim = attrs.integer(Attr::kHeadDim);
  const int64_t half = attrs.integer(Attr::kRopeDim) / 2, seq = table.rows();
  const bool interleaved = attrs.integer(Attr::kInterleaved) != 0;
  Array y = x;
  for (int64_t t = 0; t < x.rows(); ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t start = (h + 1) * head_dim - 2 * half;
      for (int64_t i = 0; i < half; ++i) {
        const double c = table.at(t % seq, 2 * i), s = direction * table.at(t % seq, 2 * i + 1);
        const int64_t a = start + (interleaved ? 2 * i : i);
        const int64_t b = interleaved ? a + 1 : a + half;
        y.at(t, a) = x.at(t, a) * c - x.at(t, b) * s;
        y.at(t, b) = x.at(t, b) * c + x.at(t, a) * s;
      }
    }
  }
  return y;
}

Arrays rope(const Arrays& in, const Attrs& attrs) { return {turned(in[0], in[1], attrs, 1)}; }
Arrays rope_bwd(const Arrays& in, const Attrs& attrs) { return {turned(in[0], in[1], attrs, -1)}; }

Arrays swiglu(const Arrays& in, const Attrs&) {
  Array y(in[0].shape);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double g = in[0].values[i];
    y.values[i] = g / (1 + std::exp(-g)) * in[1].values[i];
  }
  return {y};
}

Arrays swiglu_bwd(const Arrays& in, const Attrs&) {
  Array d_gate(in[0].shape), d_up(in[0].shape);
  for (size_t i = 0; i < d_up.values.size(); ++i) {
    const double g = in[0].values[i], u = in[1].values[i], d = in[2].values[i];
    const double s = 1 / (1 + std::exp(-g));
    d_gate.values[i] = d * u * s * (1 + g * (1 - s));
    d_up.values[i] = d * g * s;
  }
  return {d_gate, d_up};
}

Arrays rows(const Arrays& in, const Attrs& attrs) {
  const int64_t begin = attrs.integer(Attr::kBegin), end = attrs.integer(Attr::kEnd);
  Shape shape = in[0].shape;
  shape[0] = end - begin;
  Array y(shape);
  const int64_t first = begin * in[0].width();
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = in[0].values[first + i];
  return {y};
}

Arrays put_rows(const Arrays& in, const Attrs& attrs) {
  Array y = in[1];
  const int64_t first = attrs.integer(Attr::kBegin) * in[0].width();
  for (size_t i = 0; i < in[0].values.size(); ++i) y.values[first + i] = in[0].values[i];
  return {y};
}

Arrays linear(const Arrays& in, const Attrs&) {
  Array y({in[0].rows(), in[1].rows()});
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t n = 0; n < y.width(); ++n) {
      for (int64_t k = 0; k < in[0].width(); ++k) y.at(t, n) += in[0].at(t, k) * in[1].at(n, k);
    }
  }
  return {y};
}

Arrays linear_dgrad(const Arrays& in, const Attrs&) {
  Array dx({in[0].rows(), in[1].width()});
  for (int64_t t = 0; t < dx.rows(); ++t) {
    for (int64_t n = 0; n < in[0].width(); ++n) {
      for (int64_t k = 0; k < dx.width(); ++k) dx.at(t, k) += in[0].at(t, n) * in[1].at(n, k);
    }
  }
  return {dx};
}

Arrays linear_wgrad(const Arrays& in, const Attrs&) {
  Array dw({in[0].width(), in[1].width()});
  for (int64_t t = 0; t < in[0].rows(); ++t) {
    for (int64_t n = 0; n < dw.rows(); ++n) {
      for (int64_t k = 0; k < dw.width(); ++k) dw.at(n, k) += in[0].at(t, n) * in[1].at(t, k);
    }
  }
  return {dw};
}

// Indices of one query: row t, head h, against the keys of its sequence up to its own position.
struct Attention {
  int64_t heads, head_dim, v_dim, group, seq;
  double scale;

  explicit Attention(const Attrs& a)
      : heads(a.integer(Attr::kHeads)), head_dim(a.integer(Attr::kHeadDim)),
        v_dim(a.integer(Attr::kVHeadDim)), group(heads / a.integer(Attr::kKvHeads)),
        seq(a.integer(Attr::kSeq)), scale(a.real(Attr::kScale)) {}

  [[nodiscard]] double score(const Array& q, const Array& k, int64_t t, int64_t u,
                             int64_t h) const {
    double sum = 0;
    for (int64_t i = 0; i < head_dim; ++i) {
      sum += q.at(t, h * head_dim + i) * k.at(u, h / group * head_dim + i);
    }
    return sum * scale;
  }
};

Arrays attention(const Arrays& in, const Attrs& attrs) {
  const Attention a(attrs);
  const Array &q = in[0], &k = in[1], &v = in[2];
  Array context({q.rows(), a.heads * a.v_dim}), lse({q.rows(), a.heads});
  for (int64_t t = 0; t < q.rows(); ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t first = t / a.seq * a.seq;
      std::vector<double> scores;
      for (int64_t u = first; u <= t; ++u) scores.push_back(a.score(q, k, t, u, h));
      const double highest = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double s : scores) sum += std::exp(s - highest);
      lse.at(t, h) = highest + std::log(sum);
      for (int64_t u = first; u <= t; ++u) {
        const double p = std::exp(scores[u - first] - lse.at(t, h));
        for (int64_t i = 0; i < a.v_dim; ++i) {
          context.at(t, h * a.v_dim + i) += p * v.at(u, h / a.group * a.v_dim + i);
        }
      }
    }
  }
  return {context, lse};
}

Arrays attention_bwd(const Arrays& in, const Attrs& attrs) {
  const Attention a(attrs);
  const Array &q = in[0], &k = in[1], &v = in[2], &context = in[3], &lse = in[4], &dc = in[5];
  Array dq(q.shape), dk(k.shape), dv(v.shape);
  for (int64_t t = 0; t < q.rows(); ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t qh = h * a.head_dim, kh = h / a.group * a.head_dim;
      const int64_t ch = h * a.v_dim, vh = h / a.group * a.v_dim;
      double delta = 0;
      for (int64_t i = 0; i < a.v_dim; ++i) delta += dc.at(t, ch + i) * context.at(t, ch + i);
      for (int64_t u = t / a.seq * a.seq; u <= t; ++u) {
        const double p = std::exp(a.score(q, k, t, u, h) - lse.at(t, h));
        double dp = 0;
        for (int64_t i = 0; i < a.v_dim; ++i) {
          dp += dc.at(t, ch + i) * v.at(u, vh + i);
          dv.at(u, vh + i) += p * dc.at(t, ch + i);
        }
        const double ds = a.scale * p * (dp - delta);
        for (int64_t i = 0; i < a.head_dim; ++i) {
          dq.at(t, qh + i) += ds * k.at(u, kh + i);
          dk.at(u, kh + i) += ds * q.at(t, qh + i);
        }
      }
    }
  }
  return {dq, dk, dv};
}

Arrays cross_entropy(const Arrays& in, const Attrs&) {
  const Array &logits = in[0], &targets = in[1];
  Array loss({1}), lse({logits.rows()});
  for (int64_t t = 0; t < logits.rows(); ++t) {
    double highest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < logits.width(); ++i) highest = std::max(highest, logits.at(t, i));
    for (int64_t i = 0; i < logits.width(); ++i) sum += std::exp(logits.at(t, i) - highest);
    lse.values[t] = highest + std::log(sum);
    const auto target = static_cast<int64_t>(targets.values[t]);
    if (target >= 0) loss.values[0] += (lse.values[t] - logits.at(t, target)) * in[2].values[0];
  }
  return {loss, lse};
}

Arrays cross_entropy_bwd(const Arrays& in, const Attrs& attrs) {
  const Array &logits = in[0], &lse = in[1], &targets = in[2];
  const double scale = in[3].values[kInverseValidTokens] * attr_or(attrs, Attr::kScale, 1);
  const double begin = attr_or(attrs, Attr::kBegin, 0), end = attr_or(attrs, Attr::kEnd, INFINITY);
  Array d(logits.shape);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    for (int64_t i = 0; i < logits.width(); ++i) {
      const double token = begin + static_cast<double>(i);
      if (targets.values[t] < 0 || token >= end) continue;
      const double right = token == targets.values[t] ? 1 : 0;
      d.at(t, i) = (std::exp(logits.at(t, i) - lse.values[t]) - right) * scale;
    }
  }
  return {d};
}

Arrays vocab_stats(const Arrays& in, const Attrs& attrs) {
  const Array &logits = in[0], &targets = in[1];
  Array stats({logits.rows(), 2});
  for (int64_t t = 0; t < logits.rows(); ++t) {
    double sum = 0;
    for (int64_t i = 0; i < logits.width(); ++i) {
      const double token = attrs.real(Attr::kBegin) + static_cast<double>(i);
      if (token >= attrs.real(Attr::kEnd)) continue;
      sum += std::exp(logits.at(t, i));
      if (token == targets.values[t]) stats.at(t, 1) = logits.at(t, i);
    }
    stats.at(t, 0) = std::log(sum);
  }
  return {stats};
}

Arrays vocab_loss(const Arrays& in, const Attrs& attrs) {
  const Array &stats = in[0], &targets = in[1];
  const int64_t T = targets.rows();
  Array loss({1}), lse({T});
  for (int64_t t = 0; t < T; ++t) {
    double sum = 0, logit = 0;
    for (int64_t row = t; row < stats.rows(); row += T) {
      sum += std::exp(stats.at(row, 0));
      logit += stats.at(row, 1);
    }
    lse.values[t] = std::log(sum);
    if (targets.values[t] >= 0) loss.values[0] += lse.values[t] - logit;
  }
  loss.values[0] *= in[2].values[kInverseValidTokens] * attr_or(attrs, Attr::kScale, 1);
  return {loss, lse};
}

Arrays sum_squares(const Arrays& in, const Attrs&) {
  Array s({1});
  for (double x : in[0].values) s.values[0] += x * x;
  return {s};
}

// in: grad, norm_sq, scalars, then param, [master,] m, v before the step.
Arrays adamw(const Arrays& in, const Attrs& a) {
  const std::vector<double>& scalars = in[2].values;
  const double lr = scalars[kLearningRate], beta1 = a.real(Attr::kBeta1),
               beta2 = a.real(Attr::kBeta2), norm = std::sqrt(in[1].values[0]);
  Arrays state(in.begin() + 3, in.end());
  if (!std::isfinite(norm)) return state;
  const double max_norm = a.real(Attr::kMaxNorm);
  const double clip = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  Array &p = state[state.size() - 3], &m = state[state.size() - 2], &v = state.back();
  for (size_t i = 0; i < p.values.size(); ++i) {
    const double g = in[0].values[i] * clip;
    p.values[i] *= 1 - lr * a.real(Attr::kWeightDecay);
    m.values[i] = beta1 * m.values[i] + (1 - beta1) * g;
    v.values[i] = beta2 * v.values[i] + (1 - beta2) * g * g;
    p.values[i] -= lr / scalars[kBiasCorrection1] * m.values[i] /
                   (std::sqrt(v.values[i]) / std::sqrt(scalars[kBiasCorrection2]) +
                    a.real(Attr::kEps));
  }
  state[0].values = p.values;
  return state;
}

}  // namespace

Arrays reference(OpKind kind, const Arrays& in, const Attrs& attrs) {
  switch (kind) {
    case OpKind::kEmbedding: return embedding(in, attrs);
    case OpKind::kEmbeddingBwd: return embedding_bwd(in, attrs);
    case OpKind::kRmsNorm: return rms_norm(in, attrs);
    case OpKind::kRmsNormBwd: return rms_norm_bwd(in, attrs);
    case OpKind::kAdd: return add(in, attrs);
    case OpKind::kRope: return rope(in, attrs);
    case OpKind::kRopeBwd: return rope_bwd(in, attrs);
    case OpKind::kSwiglu: return swiglu(in, attrs);
    case OpKind::kSwigluBwd: return swiglu_bwd(in, attrs);
    case OpKind::kRows: return rows(in, attrs);
    case OpKind::kPutRows: return put_rows(in, attrs);
    case OpKind::kLinear: return linear(in, attrs);
    case OpKind::kLinearDgrad: return linear_dgrad(in, attrs);
    case OpKind::kLinearWgrad: return linear_wgrad(in, attrs);
    case OpKind::kAttention: return attention(in, attrs);
    case OpKind::kAttentionBwd: return attention_bwd(in, attrs);
    case OpKind::kCrossEntropy: return cross_entropy(in, attrs);
    case OpKind::kCrossEntropyBwd: return cross_entropy_bwd(in, attrs);
    case OpKind::kVocabStats: return vocab_stats(in, attrs);
    case OpKind::kVocabLoss: return vocab_loss(in, attrs);
    case OpKind::kSumSquares: return sum_squares(in, attrs);
    case OpKind::kAdamW: return adamw(in, attrs);
    case OpKind::kCopy:
    case OpKind::kFree: break;
    default: return moe_reference(kind, in, attrs);
  }
  throw std::logic_error("no reference: this op computes nothing");
}

}  // namespace spillway
