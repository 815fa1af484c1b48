#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "program/error.h"

namespace spillway::cpu {
namespace {

// One pass over T integers, so that a bad token is an error with its place and not a stray read.
void check_tokens(const TensorRef& tokens, int64_t vocabulary) {
  const int32_t* token = elements_of<int32_t>(tokens);
  for (int64_t row = 0; row < tokens.elements(); ++row) {
    if (token[row] >= 0 && token[row] < vocabulary) continue;
    throw DeviceError(fmt::format("token {} of row {} is outside the vocabulary [0, {})",
                                  token[row], row, vocabulary));
  }
}

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

  TensorRef tokens, dy, d_weight;
  bool accumulate;
  int threads;
  Workspace space;

  explicit EmbeddingBwd(const BoundOp& op)
      : tokens(op.in[0]), dy(op.in[1]), d_weight(op.out[0]), accumulate(op.accumulate[0]),
        threads(op.threads), space(op, 2 * tokens.elements(), 0) {}

  void operator()() const {
    check_tokens(tokens, d_weight.rows());
    if (!accumulate) zero(d_weight, threads);
    const int64_t rows = tokens.elements();
    auto* order = reinterpret_cast<uint64_t*>(space.shared());  // token << 32 | row
    for (int64_t row = 0; row < rows; ++row) {
      const auto token = static_cast<uint64_t>(elements_of<int32_t>(tokens)[row]);
      order[row] = token << 32 | static_cast<uint64_t>(row);
    }
    std::sort(order, order + rows);
    parallel_for(ceil_div(dy.width(), kColumns), threads, [&](int64_t task, int) {
      const int64_t begin = task * kColumns;
      add_columns(order, begin, std::min(kColumns, dy.width() - begin));
    });
  }

  void add_columns(const uint64_t* order, int64_t begin, int64_t count) const {
    float sum[kColumns], buffer[kColumns];
    for (int64_t at = 0, end = 0; at < tokens.elements(); at = end) {
      const uint64_t token = order[at] >> 32;
      std::fill_n(sum, count, 0.0f);
      for (end = at; end < tokens.elements() && order[end] >> 32 == token; ++end) {
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
  return [tokens = op.in[0], weight = op.in[1], y = op.out[0],
          accumulate = bool{op.accumulate[0]}, threads = op.threads] {
    check_tokens(tokens, weight.rows());
    const int64_t d = weight.width();
    for_each_row(tokens.elements(), d, threads, [&](int64_t row, int) {
      const int64_t from = elements_of<int32_t>(tokens)[row] * d;
      float buffer[kBlock];
      for (int64_t at = 0; at < d; at += kBlock) {
        const int64_t count = std::min(kBlock, d - at);
        store(y, row * d + at, count, accumulate, load(weight, from + at, count, buffer));
      }
    });
  };
}

Kernel bind_embedding_bwd(const BoundOp& op) { return EmbeddingBwd(op); }

}  // namespace spillway::cpu
