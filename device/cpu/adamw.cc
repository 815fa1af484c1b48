// AdamW as torch.optim.AdamW computes it, after torch.nn.utils.clip_grad_norm_. Outputs are read and
// written in place.
#include <algorithm>
#include <cmath>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {
namespace {

struct AdamW {
  TensorRef grad, norm_sq, scalars;
  TensorRef param, master, m, v;  // master: the f32 copy if there is one, else param itself
  double beta1, beta2, eps, weight_decay, max_norm;
  int threads;

  explicit AdamW(const BoundOp& op)
      : grad(op.in[0]), norm_sq(op.in[1]), scalars(op.in[2]), param(op.out[0]),
        master(op.out[op.out.size() - 3]), m(op.out[op.out.size() - 2]), v(op.out.back()),
        beta1(op.attrs.real(Attr::kBeta1)), beta2(op.attrs.real(Attr::kBeta2)),
        eps(op.attrs.real(Attr::kEps)), weight_decay(op.attrs.real(Attr::kWeightDecay)),
        max_norm(op.attrs.real(Attr::kMaxNorm)), threads(op.threads) {}

  // What a step multiplies by: computed in f64 and rounded, as Python's numbers are.
  struct Factors {
    float clip, decay, keep1, take1, keep2, take2, step, root2, eps;
  };

  [[nodiscard]] Factors factors(float norm) const {
    const float* s = elements_of<float>(scalars);
    const double lr = s[kLearningRate];
    const double clip = max_norm > 0 ? std::min(1.0, max_norm / (double{norm} + 1e-6)) : 1.0;
    return {static_cast<float>(clip),
            static_cast<float>(1 - lr * weight_decay),
            static_cast<float>(beta1),
            static_cast<float>(1 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1 - beta2),
            static_cast<float>(lr / s[kBiasCorrection1]),
            static_cast<float>(std::sqrt(double{s[kBiasCorrection2]})),
            static_cast<float>(eps)};
  }

  void operator()() const {
    const float norm = std::sqrt(*elements_of<float>(norm_sq));
    if (!std::isfinite(norm)) return;  // a broken step leaves no trace
    const Factors f = factors(norm);
    const bool copy = master.data != param.data;
    for_each_block(param.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[4][kBlock];
      const float* g = load(grad, at, count, buffer[0]);
      float* p = in_place(master, at, count, buffer[1]);
      float* first = in_place(m, at, count, buffer[2]);
      float* second = in_place(v, at, count, buffer[3]);
      update(f, g, p, first, second, count);
      store(master, at, count, false, p);
      store(m, at, count, false, first);
      store(v, at, count, false, second);
      if (copy) store(param, at, count, false, p);
    });
  }

  static float* in_place(const TensorRef& tensor, int64_t at, int64_t count, float* buffer) {
    load(tensor, at, count, buffer);
    return target(tensor, at, false, buffer);
  }

  static void update(const Factors& f, const float* g, float* p, float* m, float* v,
                     int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float grad = g[i] * f.clip;
      m[i] = f.keep1 * m[i] + f.take1 * grad;
      v[i] = f.keep2 * v[i] + f.take2 * grad * grad;
      p[i] = p[i] * f.decay - f.step * m[i] / (std::sqrt(v[i]) / f.root2 + f.eps);
    }
  }
};

}  // namespace

Kernel bind_adamw(const BoundOp& op) { return AdamW(op); }

}  // namespace spillway::cpu
