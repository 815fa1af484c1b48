#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"
#include "program/error.h"

namespace spillway::cpu {
namespace {

// Which row of a weight is a token's. A weight that states where it begins holds a part of the
// vocabulary, and other tokens are other ranks'.
struct Lookup {
  TensorRef tokens;
  int64_t begin, rows;
  bool part;

  Lookup(const BoundOp& op, const TensorRef& weight)
      : tokens(op.in[0]), begin(0), rows(weight.rows()), part(op.attrs.has(Attr::kBegin)) {
    if (part) begin = op.attrs.integer(Attr::kBegin);
  }

  // -1: none.
  [[nodiscard]] int64_t operator()(int64_t position) const {
    const int64_t row = elements_of<int32_t>(tokens)[position] - begin;
    return row >= 0 && row < rows ? row : -1;
  }

  // One pass over T integers, so that a bad token is an error with its place and not a stray read.
  void check() const {
    for (int64_t position = 0; !part && position < tokens.elements(); ++position) {
      if ((*this)(position) >= 0) continue;
      throw DeviceError(fmt::format("token {} of row {} is outside the vocabulary [0, {})",
                                    elements_of<int32_t>(tokens)[position], position, rows));
    }
  }
};

void zero(const TensorRef& tensor, int threads) {
  const int64_t bytes = tensor.elements() * size_of(tensor.dtype);
  constexpr int64_t kPiece = int64_t{1} << 20;
  parallel_for(ceil_div(bytes, kPiece), threads, [&](int64_t task, int) {
    std::memset(static_cast<std::byte*>(tensor.data) + task * kPiece, 0,
                static_cast<size_t>(std::min(kPiece, bytes - task * kPiece)));
  });
}

// The rows of each token are added in f32, in order, and the sum rounded once. For that, rows are
// sorted by token; threads take columns, so that a frequent token keeps no thread waiting.
struct EmbeddingBwd {
  static constexpr int64_t kColumns = 256;

  TensorRef dy, d_weight;
  Lookup lookup;
  bool accumulate;
  int threads;
  Workspace space;

  explicit EmbeddingBwd(const BoundOp& op)
      : dy(op.in[1]), d_weight(op.out[0]), lookup(op, d_weight), accumulate(op.accumulate[0]),
        threads(op.threads), space(op, 2 * dy.rows(), 0) {}

  void operator()() const {
    lookup.check();
    if (!accumulate) zero(d_weight, threads);
    auto* order = reinterpret_cast<uint64_t*>(space.shared());  // row of d.weight << 32 | of d.y
    int64_t rows = 0;
    for (int64_t row = 0; row < dy.rows(); ++row) {
      const int64_t to = lookup(row);
      if (to >= 0) order[rows++] = static_cast<uint64_t>(to) << 32 | static_cast<uint64_t>(row);
    }
    std::sort(order, order + rows);
    parallel_for(ceil_div(dy.width(), kColumns), threads, [&](int64_t task, int) {
      const int64_t begin = task * kColumns;
      add_columns(order, rows, begin, std::min(kColumns, dy.width() - begin));
    });
  }

  void add_columns(const uint64_t* order, int64_t rows, int64_t begin, int64_t count) const {
    float sum[kColumns], buffer[kColumns];
    for (int64_t at = 0, end = 0; at < rows; at = end) {
      const uint64_t token = order[at] >> 32;
      std::fill_n(sum, count, 0.0f);
      for (end = at; end < rows && order[end] >> 32 == token; ++end) {
        const auto row = static_cast<int64_t>(order[end] & 0xffffffff);
        const float* dy_row = load(dy, row * dy.width() + begin, count, buffer);
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) sum[i] += dy_row[i];
      }
      const int64_t to = static_cast<int64_t>(token) * dy.width() + begin;
      store(d_weight, to, count, accumulate, sum);
    }
  }
};

}  // namespace

Kernel bind_embedding(const BoundOp& op) {
  return [lookup = Lookup(op, op.in[1]), weight = op.in[1], y = op.out[0],
          accumulate = bool{op.accumulate[0]}, threads = op.threads] {
    lookup.check();
    const int64_t d = weight.width();
    for_each_row(y.rows(), d, threads, [&](int64_t row, int) {
      const int64_t from = lookup(row);
      if (from >= 0) move(weight, from * d, d, y, row * d, accumulate);
      if (from < 0 && !accumulate) clear(y, row * d, d);
    });
  };
}

Kernel bind_embedding_bwd(const BoundOp& op) { return EmbeddingBwd(op); }

}  // namespace spillway::cpu
