#include "tests/device/moe_reference.h"

#include <algorithm>

namespace spillway {
namespace {

int64_t index(const Array& indices, int64_t at) {
  return static_cast<int64_t>(indices.values[at]);
}

// ---- multi-head latent attention ---------------------------------------------------------------

Arrays columns(const Arrays& in, const Attrs& a) {
  const int64_t begin = a.integer(Attr::kBegin), end = a.integer(Attr::kEnd);
  Array y({in[0].rows(), end - begin});
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t c = begin; c < end; ++c) y.at(t, c - begin) = in[0].at(t, c);
  }
  return {y};
}

Arrays put_columns(const Arrays& in, const Attrs& a) {
  Array dx = in[1];
  const int64_t begin = a.integer(Attr::kBegin);
  for (int64_t t = 0; t < dx.rows(); ++t) {
    for (int64_t c = 0; c < in[0].width(); ++c) dx.at(t, begin + c) = in[0].at(t, c);
  }
  return {dx};
}

Arrays concat(const Arrays& in, const Attrs&) {
  const int64_t left = in[0].width();
  Array y({in[0].rows(), left + in[1].width()});
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t c = 0; c < y.width(); ++c) {
      y.at(t, c) = c < left ? in[0].at(t, c) : in[1].at(t, c - left);
    }
  }
  return {y};
}

Arrays next_tokens(const Arrays& in, const Attrs& a) {
  const int64_t S = a.integer(Attr::kSeq);
  Array tokens(in[0].shape), targets(in[0].shape);
  for (int64_t t = 0; t < tokens.rows(); ++t) {
    const bool has_next = t % S + 1 < S && in[0].values[t] >= 0 && in[0].values[t + 1] >= 0;
    tokens.values[t] = in[0].values[t] >= 0 ? in[0].values[t] : 0;
    targets.values[t] = has_next ? in[0].values[t + 1] : -100;
  }
  return {tokens, targets};
}

struct Heads {
  int64_t H, n, r, v;
  explicit Heads(const Attrs& a)
      : H(a.integer(Attr::kHeads)), n(a.integer(Attr::kHeadDim) - a.integer(Attr::kRopeDim)),
        r(a.integer(Attr::kRopeDim)), v(a.integer(Attr::kVHeadDim)) {}
};

Arrays mla_key(const Arrays& in, const Attrs& a) {
  const Heads d(a);
  Array key({in[0].rows(), d.H * (d.n + d.r)});
  for (int64_t t = 0; t < key.rows(); ++t) {
    for (int64_t h = 0; h < d.H; ++h) {
      for (int64_t i = 0; i < d.n + d.r; ++i) {
        key.at(t, h * (d.n + d.r) + i) =
            i < d.n ? in[0].at(t, h * (d.n + d.v) + i) : in[1].at(t, i - d.n);
      }
    }
  }
  return {key};
}

Arrays mla_key_bwd(const Arrays& in, const Attrs& a) {
  const Heads d(a);
  Array d_up = in[1], d_rot = in[2];
  for (int64_t t = 0; t < d_up.rows(); ++t) {
    for (int64_t h = 0; h < d.H; ++h) {
      const int64_t key = h * (d.n + d.r);
      for (int64_t i = 0; i < d.n; ++i) d_up.at(t, h * (d.n + d.v) + i) = in[0].at(t, key + i);
      for (int64_t i = 0; i < d.r; ++i) d_rot.at(t, i) += in[0].at(t, key + d.n + i);
    }
  }
  return {d_up, d_rot};
}

Arrays mla_value(const Arrays& in, const Attrs& a) {
  const Heads d(a);
  Array value({in[0].rows(), d.H * d.v});
  for (int64_t t = 0; t < value.rows(); ++t) {
    for (int64_t c = 0; c < value.width(); ++c) {
      value.at(t, c) = in[0].at(t, c / d.v * (d.n + d.v) + d.n + c % d.v);
    }
  }
  return {value};
}

Arrays mla_value_bwd(const Arrays& in, const Attrs& a) {
  const Heads d(a);
  Array d_up = in[1];
  for (int64_t t = 0; t < d_up.rows(); ++t) {
    for (int64_t c = 0; c < in[0].width(); ++c) {
      d_up.at(t, c / d.v * (d.n + d.v) + d.n + c % d.v) = in[0].at(t, c);
    }
  }
  return {d_up};
}

// ---- mixture of experts ------------------------------------------------------------------------

// in: experts[T, k]
Arrays dispatch_plan(const Arrays& in, const Attrs& a) {
  const int64_t E = a.integer(Attr::kExperts), choices = element_count(in[0].shape);
  const int64_t of_sequence = a.integer(Attr::kSeq) * in[0].width();
  Array order({choices}), offsets({E + 1}), place({choices});
  for (double& value : order.values) value = -1;
  for (double& value : place.values) value = -1;
  int64_t row = 0;
  for (int64_t e = 0; e < E; ++e) {
    int64_t taken = 0;
    for (int64_t choice = 0; choice < choices; ++choice) {
      if (choice % of_sequence == 0) taken = 0;
      if (index(in[0], choice) != e) continue;
      if (a.integer(Attr::kCapacity) > 0 && taken == a.integer(Attr::kCapacity)) continue;
      ++taken;
      place.values[choice] = static_cast<double>(row);
      order.values[row++] = static_cast<double>(choice);
    }
    offsets.values[e + 1] = static_cast<double>(row);
  }
  return {order, offsets, place};
}

Arrays count_experts(const Arrays& in, const Attrs&) {
  Array load(in[1].shape);
  for (double e : in[0].values) load.values[static_cast<size_t>(e)] += 1;
  load.values.back() = static_cast<double>(in[0].values.size()) - in[1].values.back();
  return {load};
}

// in: x, order, offsets, place
Arrays dispatch(const Arrays& in, const Attrs&) {
  const int64_t k = in[1].rows() / in[0].rows();
  Array rows({in[1].rows(), in[0].width()});
  for (int64_t r = 0; r < index(in[2], in[2].rows() - 1); ++r) {
    for (int64_t c = 0; c < rows.width(); ++c) rows.at(r, c) = in[0].at(index(in[1], r) / k, c);
  }
  return {rows};
}

// in: d.rows, place. T is not among them: it comes as kEnd.
Arrays dispatch_bwd(const Arrays& in, const Attrs& a) {
  Array dx({a.integer(Attr::kEnd), in[0].width()});
  const int64_t k = in[1].rows() / dx.rows();
  for (int64_t choice = 0; choice < in[1].rows(); ++choice) {
    const int64_t row = index(in[1], choice);
    for (int64_t c = 0; c < dx.width() && row >= 0; ++c) dx.at(choice / k, c) += in[0].at(row, c);
  }
  return {dx};
}

// Calls f(expert, row) for every row that has an expert.
template <class F>
void for_each_row(const Array& offsets, const F& f) {
  for (int64_t e = 0; e + 1 < offsets.rows(); ++e) {
    for (int64_t r = index(offsets, e); r < index(offsets, e + 1); ++r) f(e, r);
  }
}

// weight[E, N, K]: a row of the Array is one expert's.
Arrays grouped_linear(const Arrays& in, const Attrs&) {
  const Array &x = in[0], &weight = in[1];
  const int64_t N = weight.shape[1], K = weight.shape[2];
  Array y({x.rows(), N});
  for_each_row(in[2], [&](int64_t e, int64_t r) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) y.at(r, n) += x.at(r, k) * weight.at(e, n * K + k);
    }
  });
  return {y};
}

Arrays grouped_linear_dgrad(const Arrays& in, const Attrs&) {
  const Array &dy = in[0], &weight = in[1];
  const int64_t N = weight.shape[1], K = weight.shape[2];
  Array dx({dy.rows(), K});
  for_each_row(in[2], [&](int64_t e, int64_t r) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) dx.at(r, k) += dy.at(r, n) * weight.at(e, n * K + k);
    }
  });
  return {dx};
}

Arrays grouped_linear_wgrad(const Arrays& in, const Attrs&) {
  const Array &dy = in[0], &x = in[1];
  const int64_t N = dy.width(), K = x.width();
  Array d_weight({in[2].rows() - 1, N, K});
  for_each_row(in[2], [&](int64_t e, int64_t r) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) d_weight.at(e, n * K + k) += dy.at(r, n) * x.at(r, k);
    }
  });
  return {d_weight};
}

// in: rows, weights, place
Arrays combine(const Arrays& in, const Attrs&) {
  const int64_t k = in[1].width();
  Array y({in[1].rows(), in[0].width()});
  for (int64_t choice = 0; choice < in[2].rows(); ++choice) {
    if (index(in[2], choice) < 0) continue;
    for (int64_t c = 0; c < y.width(); ++c) {
      y.at(choice / k, c) += in[1].values[choice] * in[0].at(index(in[2], choice), c);
    }
  }
  return {y};
}

// in: rows, weights, place, d.y
Arrays combine_bwd(const Arrays& in, const Attrs&) {
  const int64_t k = in[1].width();
  Array d_rows(in[0].shape), d_weights(in[1].shape);
  for (int64_t choice = 0; choice < in[2].rows(); ++choice) {
    const int64_t row = index(in[2], choice);
    for (int64_t c = 0; c < in[0].width() && row >= 0; ++c) {
      d_rows.at(row, c) = in[1].values[choice] * in[3].at(choice / k, c);
      d_weights.values[choice] += in[0].at(row, c) * in[3].at(choice / k, c);
    }
  }
  return {d_rows, d_weights};
}

// ---- experts on other ranks: in: all_offsets[P, E+1] -------------------------------------------

// Calls f(receiver, expert, source, row) for every row of every rank, a receiver's in the order in
// which they lie there.
template <class F>
void for_each_sent_row(const Array& offsets, const F& f) {
  const int64_t P = offsets.rows(), E = offsets.width() - 1;
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t p = 0; p < P; ++p) {
      for (auto r = offsets.at(p, e); r < offsets.at(p, e + 1); ++r) {
        f(e / (E / P), e % (E / P), p, static_cast<int64_t>(r));
      }
    }
  }
}

Arrays expert_offsets(const Arrays& in, const Attrs& a) {
  Array offsets({(in[0].width() - 1) / in[0].rows() + 1});
  for_each_sent_row(in[0], [&](int64_t receiver, int64_t expert, int64_t, int64_t) {
    if (receiver != a.integer(Attr::kPart)) return;
    for (int64_t e = expert + 1; e < offsets.rows(); ++e) {
      offsets.values[e] = std::min(offsets.values[e] + 1, a.real(Attr::kRows));
    }
  });
  return {offsets};
}

Arrays count_overflow(const Arrays& in, const Attrs& a) {
  Array load({in[0].width()}), arrived({in[0].rows()});
  for_each_sent_row(in[0], [&](int64_t receiver, int64_t, int64_t source, int64_t) {
    const bool left_out = ++arrived.values[receiver] > a.real(Attr::kRows);
    if (left_out && source == a.integer(Attr::kPart)) ++load.values.back();
  });
  return {load};
}

}  // namespace

Arrays moe_reference(OpKind kind, const Arrays& in, const Attrs& attrs) {
  switch (kind) {
    case OpKind::kColumns: return columns(in, attrs);
    case OpKind::kPutColumns: return put_columns(in, attrs);
    case OpKind::kConcat: return concat(in, attrs);
    case OpKind::kNextTokens: return next_tokens(in, attrs);
    case OpKind::kMlaKey: return mla_key(in, attrs);
    case OpKind::kMlaKeyBwd: return mla_key_bwd(in, attrs);
    case OpKind::kMlaValue: return mla_value(in, attrs);
    case OpKind::kMlaValueBwd: return mla_value_bwd(in, attrs);
    case OpKind::kDispatchPlan: return dispatch_plan(in, attrs);
    case OpKind::kCountExperts: return count_experts(in, attrs);
    case OpKind::kDispatch: return dispatch(in, attrs);
    case OpKind::kDispatchBwd: return dispatch_bwd(in, attrs);
    case OpKind::kGroupedLinear: return grouped_linear(in, attrs);
    case OpKind::kGroupedLinearDgrad: return grouped_linear_dgrad(in, attrs);
    case OpKind::kGroupedLinearWgrad: return grouped_linear_wgrad(in, attrs);
    case OpKind::kExpertOffsets: return expert_offsets(in, attrs);
    case OpKind::kCountOverflow: return count_overflow(in, attrs);
    case OpKind::kCombine: return combine(in, attrs);
    case OpKind::kCombineBwd: return combine_bwd(in, attrs);
    default: return router_reference(kind, in, attrs);
  }
}

}  // namespace spillway
