// Matrix products. The output is cut into tiles of rows; each is computed by one thread with an inner
// loop over everything, so no sum is split and bits do not depend on the number of threads. (oneDNN's
// own parallel bf16 products do: [2048, 1376] . [1376, 512] differs between 1 and 2 threads.)
//
// f32 operands go to sgemm, bf16 ones to a primitive; where types are mixed, or the processor has no
// bf16 products, panels are converted to f32 first.
#include <algorithm>
#include <memory>

#include "device/cpu/bf16_matmul.h"
#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/sgemm.h"

namespace spillway::cpu {
namespace {

struct Operand {
  TensorRef tensor;
  int64_t stride;   // of a row as stored
  bool transposed;

  // The element in front of row `row`, column `column` of the matrix as it is used.
  [[nodiscard]] int64_t at(int64_t row, int64_t column) const {
    return transposed ? column * stride + row : row * stride + column;
  }
};

// y[rows, columns] = a[rows, inner] . b[inner, columns]
struct Product {
  Operand a, b;
  TensorRef y;
  bool accumulate;
  int64_t rows, columns, inner;
  int threads;

  [[nodiscard]] bool all(DType dtype) const {
    return a.tensor.dtype == dtype && b.tensor.dtype == dtype;
  }
};

// Rows of a tile: enough to pay for packing b once a tile, and at least four tiles for the threads of
// a small machine when there are rows for them.
int64_t tile_rows(int64_t rows) { return std::clamp<int64_t>(round_up(ceil_div(rows, 4), 64), 64, 256); }

// Threads are not worth waking for less than some 20 us.
int threads_for(const Product& p) {
  return 2 * p.rows * p.columns * p.inner < 2'000'000 ? 1 : p.threads;
}

// Calls f(first row, rows, thread) for every tile.
template <class F>
void for_each_tile(const Product& p, const F& f) {
  const int64_t step = tile_rows(p.rows);
  parallel_for(ceil_div(p.rows, step), threads_for(p), [&](int64_t tile, int thread) {
    f(tile * step, std::min(step, p.rows - tile * step), thread);
  });
}

// bf16 operands: whole tiles and the last, smaller one have a primitive each.
Kernel bind_bf16(const BoundOp& op, const Product& p) {
  const int64_t step = tile_rows(p.rows), rest = p.rows % step;
  const auto matmul = [&](int64_t rows) -> std::shared_ptr<Bf16Matmul> {
    return Bf16Matmul::create({rows, p.columns, p.inner, p.a.stride, p.b.stride, p.columns,
                               p.a.transposed, p.b.transposed, p.y.dtype, p.accumulate},
                              p.threads);
  };
  const auto whole = p.rows < step ? nullptr : matmul(step);
  const auto last = rest == 0 ? whole : matmul(rest);
  if ((p.rows >= step && !whole) || !last) return nullptr;
  const int64_t scratch = std::max(whole ? whole->scratch_bytes() : 0, last->scratch_bytes());
  return [p, step, whole, last, space = Workspace(op, 0, ceil_div(scratch, sizeof(float)))] {
    for_each_tile(p, [&](int64_t row, int64_t rows, int thread) {
      const void* a = elements_of<uint16_t>(p.a.tensor, p.a.at(row, 0));
      std::byte* c = static_cast<std::byte*>(p.y.data) + row * p.columns * size_of(p.y.dtype);
      (rows == step ? whole : last)->run(thread, a, p.b.tensor.data, c, space.of(thread));
    });
  };
}

// Everything else: panels of at most kPanel x kPanel, converted if need be; f32 panels are the operand
// itself, and then there is one panel.
class PanelProduct {
 public:
  PanelProduct(const BoundOp& op, const Product& p)
      : p_(p), inner_step_(p.all(DType::kF32) ? p.inner : std::min(p.inner, kPanel)),
        column_step_(p.all(DType::kF32) ? p.columns : std::min(p.columns, kPanel)),
        space_(op, 0, sizes().a + sizes().b + sizes().c) {}

  void operator()() const {
    for_each_tile(p_, [&](int64_t row, int64_t rows, int thread) {
      for (int64_t column = 0; column < p_.columns; column += column_step_) {
        tile(row, rows, column, std::min(column_step_, p_.columns - column), space_.of(thread));
      }
    });
  }

 private:
  static constexpr int64_t kPanel = 512;
  struct Sizes {
    int64_t a, b, c;
  };

  [[nodiscard]] bool direct() const { return p_.y.dtype == DType::kF32; }
  [[nodiscard]] Sizes sizes() const {
    const int64_t rows = tile_rows(p_.rows);
    return {p_.a.tensor.dtype == DType::kF32 ? 0 : rows * inner_step_,
            p_.b.tensor.dtype == DType::kF32 ? 0 : inner_step_ * column_step_,
            direct() ? 0 : rows * column_step_};
  }

  void tile(int64_t row, int64_t rows, int64_t column, int64_t columns, float* buffer) const {
    float* a_buffer = buffer;
    float* b_buffer = a_buffer + sizes().a;
    float* sum = b_buffer + sizes().b;
    const int64_t to = row * p_.columns + column;
    float* c = direct() ? elements_of<float>(p_.y, to) : sum;
    const int64_t c_stride = direct() ? p_.columns : columns;
    for (int64_t k = 0; k < p_.inner; k += inner_step_) {
      const int64_t inner = std::min(inner_step_, p_.inner - k);
      const Factor a = panel(p_.a, row, rows, k, inner, a_buffer);
      const Factor b = panel(p_.b, k, inner, column, columns, b_buffer);
      const bool add = k > 0 || (direct() && p_.accumulate);
      sgemm({rows, columns, inner}, 1.0f, a, b, add, c, c_stride);
    }
    if (direct()) return;
    for (int64_t i = 0; i < rows; ++i) {
      store(p_.y, to + i * p_.columns, columns, p_.accumulate, sum + i * columns);
    }
  }

  static Factor panel(const Operand& x, int64_t row, int64_t rows, int64_t column, int64_t columns,
                      float* buffer) {
    const int64_t at = x.at(row, column);
    if (x.tensor.dtype == DType::kF32) {
      return {elements_of<float>(x.tensor, at), x.stride, x.transposed};
    }
    if (x.transposed) std::swap(rows, columns);  // as stored
    for (int64_t i = 0; i < rows; ++i) {
      load(x.tensor, at + i * x.stride, columns, buffer + i * columns);
    }
    return {buffer, columns, x.transposed};
  }

  Product p_;
  int64_t inner_step_, column_step_;
  Workspace space_;
};

Kernel bind_product(const BoundOp& op, bool a_transposed, bool b_transposed) {
  const TensorRef &a = op.in[0], &b = op.in[1], &y = op.out[0];
  const Product product = {.a = {a, a.width(), a_transposed},
                           .b = {b, b.width(), b_transposed},
                           .y = y,
                           .accumulate = op.accumulate[0],
                           .rows = y.rows(),
                           .columns = y.width(),
                           .inner = a_transposed ? a.rows() : a.width(),
                           .threads = op.threads};
  if (product.all(DType::kBF16)) {
    if (Kernel kernel = bind_bf16(op, product)) return kernel;
  }
  return PanelProduct(op, product);
}

}  // namespace

// y[T, N] = x[T, K] . weight[N, K]^T
Kernel bind_linear(const BoundOp& op) { return bind_product(op, false, true); }
// d.x[T, K] = d.y[T, N] . weight[N, K]
Kernel bind_linear_dgrad(const BoundOp& op) { return bind_product(op, false, false); }
// d.weight[N, K] = d.y[T, N]^T . x[T, K]
Kernel bind_linear_wgrad(const BoundOp& op) { return bind_product(op, true, false); }

}  // namespace spillway::cpu
