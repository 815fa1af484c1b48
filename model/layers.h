// Pieces that decoder layers share. Each appends ops to a ProgramBuilder and returns its result.
#pragma once

#include <string>

#include "model/model.h"
#include "program/builder.h"

namespace spillway {

class LayerBuilder {
 public:
  LayerBuilder(ProgramBuilder& builder, const Precision& precision, double initializer_range)
      : b(builder), dtype_(precision.compute),
        init_{Init::Kind::kNormal, static_cast<float>(initializer_range)} {}

  // Hugging Face's [out, in]; `rows` and `columns` say what out and in count.
  TensorId weight(const std::string& name, int64_t out, int64_t in, Dim rows = Dim::kWhole,
                  Dim columns = Dim::kWhole) {
    return b.param(name, dtype_, {out, in}, init_, {rows, columns});
  }
  // One [out, in] an expert; '*' in the name stands for the expert's number.
  TensorId expert_weights(const std::string& name, int64_t experts, int64_t out, int64_t in,
                          Dim rows, Dim columns) {
    return b.param(name, dtype_, {experts, out, in}, init_, {Dim::kExperts, rows, columns});
  }
  // y = rmsnorm(x, weight `name`)
  TensorId norm(const std::string& output, const std::string& name, TensorId x, int64_t width,
                double eps) {
    const TensorId weight = b.param(name, dtype_, {width}, {Init::Kind::kOnes, 0});
    return b.op(OpKind::kRmsNorm, output, {x, weight}, {{Attr::kEps, eps}});
  }
  // down(silu(gate(h)) * up(h)), of width f; weights PREFIX{gate,up,down}_proj.weight.
  TensorId swiglu_mlp(const std::string& prefix, TensorId h, int64_t d, int64_t f) {
    const TensorId w_gate = weight(prefix + "gate_proj.weight", f, d, Dim::kMlp);
    const TensorId w_up = weight(prefix + "up_proj.weight", f, d, Dim::kMlp);
    const TensorId w_down = weight(prefix + "down_proj.weight", d, f, Dim::kWhole, Dim::kMlp);
    const TensorId gate = b.op(OpKind::kLinear, "mlpwi_0", {h, w_gate});      // [T, f]
    const TensorId up = b.op(OpKind::kLinear, "mlpwi_1", {h, w_up});          // [T, f]
    const TensorId act = b.op(OpKind::kSwiglu, "mlp_activation", {gate, up});  // [T, f]
    return b.op(OpKind::kLinear, "mlpwo", {act, w_down});                     // [T, d]
  }

  ProgramBuilder& b;

 private:
  DType dtype_;
  Init init_;
};

// Adds the loss of h [T, d] against targets [T], `chunk` rows at a time, to the step output `loss`;
// scaled by `weight`. When training, call enter_backward() first: each chunk's gradient follows it.
struct ChunkedLoss {
  TensorId hidden, targets, head_weight, scalars, loss;
  int64_t rows, chunk;
  double weight = 1;
  bool training = true;
};
void add_chunked_loss(ProgramBuilder& b, const ChunkedLoss& c);

}  // namespace spillway
