// Products of experts' rows with their weights. offsets say whose a row is, and only when it runs.
// As in linear.cc an output is cut into tiles, each of one expert and one thread, with an inner
// loop over everything.
#include <algorithm>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"
#include "device/cpu/tile_product.h"

namespace spillway::cpu {
namespace {

// Rows of a tile: enough to pay for packing the other operand once a tile, and at least four tiles
// for the threads of a small machine when there are rows for them.
int64_t tile_rows(int64_t rows) {
  return std::clamp<int64_t>(round_up(ceil_div(rows, 4), 64), 64, 256);
}

// Threads are not worth waking for less than some 20 us.
int threads_for(const BoundOp& op, const ProductShape& shape) {
  return 2 * shape.rows * shape.columns * shape.inner < 2'000'000 ? 1 : op.threads;
}

// y[R, columns] = x[R, inner] . weight of each row's expert; rows past the last expert's are 0.
struct GroupedProduct {
  TensorRef x, weight, offsets, y;
  bool transposed, accumulate;  // transposed: the weight is
  int threads;
  int64_t step;
  TileProduct product;
  Workspace space;

  GroupedProduct(const BoundOp& op, bool transposed)
      : x(op.in[0]), weight(op.in[1]), offsets(op.in[2]), y(op.out[0]), transposed(transposed),
        accumulate(op.accumulate[0]),
        threads(threads_for(op, {x.rows(), y.width(), x.width()})), step(tile_rows(x.rows())),
        product(x.dtype, weight.dtype, y.dtype, accumulate, {step, y.width(), x.width()}),
        space(op, 0, product.buffer()) {}

  struct Tile {
    int64_t expert, row, rows;
  };

  [[nodiscard]] int64_t experts() const { return weight.shape[0]; }
  [[nodiscard]] int64_t first(int64_t expert) const {
    return elements_of<int32_t>(offsets)[expert];
  }
  [[nodiscard]] int64_t tiles_of(int64_t expert) const {
    return ceil_div(first(expert + 1) - first(expert), step);
  }

  // An expert's tiles are alike, so that none is a costly rest of a few rows.
  [[nodiscard]] Tile tile(int64_t number) const {
    int64_t expert = 0;
    while (number >= tiles_of(expert)) number -= tiles_of(expert++);
    const int64_t end = first(expert + 1), rows = end - first(expert);
    const int64_t height = round_up(ceil_div(rows, tiles_of(expert)), 16);
    const int64_t row = first(expert) + number * height;
    return {expert, row, std::min(height, end - row)};
  }

  void operator()() const {
    int64_t tiles = 0;
    for (int64_t expert = 0; expert < experts(); ++expert) tiles += tiles_of(expert);
    parallel_for(tiles, threads, [&](int64_t number, int thread) {
      const Tile t = tile(number);
      const int64_t columns = y.width(), inner = x.width();
      product({t.rows, columns, inner}, {x, t.row * inner, inner},
              {weight, t.expert * columns * inner, weight.width(), transposed},
              {y, t.row * columns, columns}, space.of(thread));
    });
    if (!accumulate) clear_rows(y, first(experts()), threads);
  }
};

// d.weight[E, N, K]: of each expert d.y[its rows, N]^T . x[its rows, K]; 0 without rows.
struct GroupedWgrad {
  TensorRef dy, x, offsets, d_weight;
  bool accumulate;
  int threads;
  int64_t step;
  TileProduct product;
  Workspace space;

  explicit GroupedWgrad(const BoundOp& op)
      : dy(op.in[0]), x(op.in[1]), offsets(op.in[2]), d_weight(op.out[0]),
        accumulate(op.accumulate[0]),
        threads(threads_for(op, {dy.width(), x.width(), dy.rows()})), step(tile_rows(dy.width())),
        product(dy.dtype, x.dtype, d_weight.dtype, accumulate, {step, x.width(), dy.rows()}),
        space(op, 0, product.buffer()) {}

  void operator()() const {
    const int64_t tiles = ceil_div(dy.width(), step);  // of an expert
    parallel_for(d_weight.shape[0] * tiles, threads, [&](int64_t number, int thread) {
      tile(number / tiles, number % tiles * step, space.of(thread));
    });
  }

  void tile(int64_t expert, int64_t row, float* buffer) const {
    const int64_t N = dy.width(), K = x.width(), rows = std::min(step, N - row);
    const int64_t to = (expert * N + row) * K;
    const int64_t first = elements_of<int32_t>(offsets)[expert];
    const int64_t inner = elements_of<int32_t>(offsets)[expert + 1] - first;
    if (inner > 0) {
      product({rows, K, inner}, {dy, first * N + row, N, true}, {x, first * K, K},
              {d_weight, to, K}, buffer);
    } else if (!accumulate) {
      clear(d_weight, to, rows * K);
    }
  }
};

}  // namespace

Kernel bind_grouped_linear(const BoundOp& op) { return GroupedProduct(op, true); }
Kernel bind_grouped_linear_dgrad(const BoundOp& op) { return GroupedProduct(op, false); }
Kernel bind_grouped_linear_wgrad(const BoundOp& op) { return GroupedWgrad(op); }

}  // namespace spillway::cpu
