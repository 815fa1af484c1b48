// Keys and values of multi-head latent attention. A head of kv_up holds n key and v value columns;
// a head's key is its n columns, then the r rotated ones that all heads share.
#include <algorithm>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"

namespace spillway::cpu {
namespace {

struct Heads {
  int64_t count, own, rotated, value;  // H, n, r, v
  int threads;

  explicit Heads(const BoundOp& op)
      : count(op.attrs.integer(Attr::kHeads)),
        own(op.attrs.integer(Attr::kHeadDim) - op.attrs.integer(Attr::kRopeDim)),
        rotated(op.attrs.integer(Attr::kRopeDim)), value(op.attrs.integer(Attr::kVHeadDim)),
        threads(op.threads) {}

  // Elements in front of head `head` of row `row`.
  [[nodiscard]] int64_t key_at(int64_t row, int64_t head) const {
    return (row * count + head) * (own + rotated);
  }
  [[nodiscard]] int64_t value_at(int64_t row, int64_t head) const {
    return (row * count + head) * value;
  }
  [[nodiscard]] int64_t up_at(int64_t row, int64_t head) const {
    return (row * count + head) * (own + value);
  }

  // Calls f(row, head) for every head of every row.
  template <class F>
  void for_each(int64_t rows, const F& f) const {
    for_each_row(rows, count * (own + std::max(rotated, value)), threads, [&](int64_t row, int) {
      for (int64_t head = 0; head < count; ++head) f(row, head);
    });
  }
};

// d.k_rot[row] = sum of the heads' rotated key columns, in order.
void add_rotated(const Heads& heads, const TensorRef& d_key, int64_t row, const TensorRef& d_rot,
                 bool accumulate) {
  float sum[kBlock], buffer[kBlock];
  for (int64_t at = 0; at < heads.rotated; at += kBlock) {
    const int64_t run = std::min(kBlock, heads.rotated - at);
    std::fill_n(sum, run, 0.0f);
    for (int64_t head = 0; head < heads.count; ++head) {
      const float* d = load(d_key, heads.key_at(row, head) + heads.own + at, run, buffer);
#pragma omp simd
      for (int64_t i = 0; i < run; ++i) sum[i] += d[i];
    }
    store(d_rot, row * heads.rotated + at, run, accumulate, sum);
  }
}

}  // namespace

Kernel bind_mla_key(const BoundOp& op) {
  return [heads = Heads(op), up = op.in[0], rotated = op.in[1], key = op.out[0],
          accumulate = bool{op.accumulate[0]}] {
    heads.for_each(key.rows(), [&](int64_t row, int64_t head) {
      const int64_t to = heads.key_at(row, head);
      move(up, heads.up_at(row, head), heads.own, key, to, accumulate);
      move(rotated, row * heads.rotated, heads.rotated, key, to + heads.own, accumulate);
    });
  };
}

// Of d.kv_up it writes the key columns, mla_value_bwd the others, whatever op.accumulate says: like
// put_columns.
Kernel bind_mla_key_bwd(const BoundOp& op) {
  return [heads = Heads(op), d_key = op.in[0], d_up = op.out[0], d_rot = op.out[1],
          accumulate = bool{op.accumulate[1]}] {
    heads.for_each(d_key.rows(), [&](int64_t row, int64_t head) {
      move(d_key, heads.key_at(row, head), heads.own, d_up, heads.up_at(row, head), false);
      if (head == 0) add_rotated(heads, d_key, row, d_rot, accumulate);
    });
  };
}

Kernel bind_mla_value(const BoundOp& op) {
  return [heads = Heads(op), up = op.in[0], value = op.out[0],
          accumulate = bool{op.accumulate[0]}] {
    heads.for_each(value.rows(), [&](int64_t row, int64_t head) {
      move(up, heads.up_at(row, head) + heads.own, heads.value, value, heads.value_at(row, head),
           accumulate);
    });
  };
}

Kernel bind_mla_value_bwd(const BoundOp& op) {
  return [heads = Heads(op), d_value = op.in[0], d_up = op.out[0]] {
    heads.for_each(d_value.rows(), [&](int64_t row, int64_t head) {
      move(d_value, heads.value_at(row, head), heads.value, d_up,
           heads.up_at(row, head) + heads.own, false);
    });
  };
}

}  // namespace spillway::cpu
