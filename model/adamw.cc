// AdamW as Programs: forward sums the squares of a block's gradients into the global norm, backward
// (the update phase) reads the complete norm and updates the block's parameters in place.
#include "model/model.h"
#include "program/verify.h"

namespace spillway {
namespace {

class AdamWBuilder {
 public:
  AdamWBuilder(const std::string& name, const OptimizerConfig& optimizer,
               const Precision& precision)
      : optimizer_(optimizer), precision_(precision) {
    program_.name = name;
    norm_sq_ = declare(step_io::kGradNormSq, DType::kF32, {1}, TensorKind::kStepIo);
    scalars_ = declare(step_io::kScalars, DType::kF32, {kStepScalarCount}, TensorKind::kStepIo);
  }

  void add(const Tensor& param) {
    global_ = param.global;
    dims_ = param.dims;
    const TensorId weight = declare(param.name, param.dtype, param.shape, TensorKind::kParam);
    program_.tensors[weight].init = param.init;
    const TensorId grad =
        declare(param.name + ".grad", precision_.gradients, param.shape, TensorKind::kGrad);
    std::vector<TensorId> state = {weight};
    auto declare_state = [&](const char* suffix, DType dtype) {
      state.push_back(declare(param.name + suffix, dtype, param.shape, TensorKind::kState));
    };
    if (precision_.separate_master()) declare_state(".master", DType::kF32);
    declare_state(".m", precision_.moments);
    declare_state(".v", precision_.moments);

    program_.forward.push_back({.kind = OpKind::kSumSquares, .in = {grad}, .out = {norm_sq_},
                                .accumulate = {true}, .attrs = {}});
    const double decay = param.shape.size() > 1 ? optimizer_.weight_decay : 0;
    program_.backward.push_back({.kind = OpKind::kAdamW, .in = {grad, norm_sq_, scalars_},
                                 .out = state,
                                 .accumulate = std::vector<bool>(state.size(), true),
                                 .attrs = {{Attr::kBeta1, optimizer_.beta1},
                                           {Attr::kBeta2, optimizer_.beta2},
                                           {Attr::kEps, optimizer_.eps},
                                           {Attr::kWeightDecay, decay},
                                           {Attr::kMaxNorm, optimizer_.max_grad_norm}}});
  }

  // Auxiliary-loss-free balancing (Wang et al., 2024): after the step, the bias of an expert with more
  // than its share of choices goes down by the rate, with less, up.
  void add_router_bias(const Tensor& bias, const Tensor& load) {
    program_.tensors.push_back(load);
    const auto counts = static_cast<TensorId>(program_.tensors.size()) - 1;
    global_ = false;
    dims_.clear();
    const TensorId state = declare(bias.name, bias.dtype, bias.shape, TensorKind::kState);
    program_.backward.push_back({.kind = OpKind::kRouterBiasUpdate, .in = {counts},
                                 .out = {state}, .accumulate = {true},
                                 .attrs = {{Attr::kRate, optimizer_.router_bias_rate}}});
  }

  [[nodiscard]] bool empty() const { return program_.forward.empty(); }
  Program finish() {
    verify(program_);
    return std::move(program_);
  }

 private:
  TensorId declare(const std::string& name, DType dtype, const Shape& shape, TensorKind kind) {
    program_.tensors.push_back({.name = name, .dtype = dtype, .shape = shape, .kind = kind,
                                .global = global_, .dims = dims_});
    return static_cast<TensorId>(program_.tensors.size()) - 1;
  }

  OptimizerConfig optimizer_;
  Precision precision_;
  Program program_;
  TensorId norm_sq_, scalars_;
  // Of the parameter being added: whether it is named without the block's prefix, and what its dims are.
  bool global_ = false;
  std::vector<Dim> dims_;
};

}  // namespace

void add_adamw(Model& model, const OptimizerConfig& optimizer, const Precision& precision) {
  std::map<int, int> of_program;   // layers that share a Program share their optimizer Program
  std::set<std::string> updated;   // a shared parameter is updated by the first block that has it
  for (Block& block : model.blocks) {
    const auto found = of_program.find(block.program);
    if (found != of_program.end()) {
      block.optimizer = found->second;
      continue;
    }
    AdamWBuilder builder(model.programs[block.program].name + "_adamw", optimizer, precision);
    for (const Tensor& tensor : model.programs[block.program].tensors) {
      if (tensor.kind != TensorKind::kParam) continue;
      if (updated.insert(full_name(block, tensor)).second) builder.add(tensor);
    }
    const Program& program = model.programs[block.program];
    const TensorId bias = program.find(kRouterBias), load = program.find(step_io::kExpertLoad);
    if (bias != kNoTensor && optimizer.router_bias_rate > 0) {
      builder.add_router_bias(program.tensors[bias], program.tensors[load]);
    }
    if (builder.empty()) continue;
    block.optimizer = of_program[block.program] = static_cast<int>(model.programs.size());
    model.programs.push_back(builder.finish());
  }
}

int64_t Model::parameter_count() const {
  std::set<std::string> counted;
  int64_t total = 0;
  for (const Block& block : blocks) {
    for (const Tensor& tensor : programs[block.program].tensors) {
      if (tensor.kind == TensorKind::kParam && counted.insert(full_name(block, tensor)).second) {
        total += element_count(tensor.shape);
      }
    }
  }
  return total;
}

}  // namespace spillway
