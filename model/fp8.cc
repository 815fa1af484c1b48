// Which products of a model are in FP8 when Precision::fp8_products asks for it.
#include <string>
#include <vector>

#include "model/model.h"

namespace spillway {
namespace {

bool is_product(OpKind kind) {
  using enum OpKind;
  return kind == kLinear || kind == kLinearDgrad || kind == kLinearWgrad || kind == kGroupedLinear ||
         kind == kGroupedLinearDgrad || kind == kGroupedLinearWgrad;
}

// Results of forward products that stay f32, routers' logits: neither they nor their gradients' products
// are narrowed.
std::vector<std::string> precise_results(const Program& layer) {
  std::vector<std::string> names;
  for (const Op& op : layer.forward) {
    const Tensor& result = layer.tensors[op.out[0]];
    if (is_product(op.kind) && result.dtype == DType::kF32) names.push_back(result.name);
  }
  return names;
}

}  // namespace

void use_fp8_products(Model& model) {
  for (int index : model.layer_programs) {
    Program& layer = model.programs[index];
    const std::vector<std::string> precise = precise_results(layer);
    const auto touches_precise = [&](const Op& op) {
      for (const std::string& name : precise) {
        if (layer.tensors[op.out[0]].name == name) return true;
        if (layer.tensors[op.in[0]].name.starts_with("d." + name)) return true;
      }
      return false;
    };
    for (std::vector<Op>* ops : {&layer.forward, &layer.backward}) {
      for (Op& op : *ops) {
        if (is_product(op.kind) && !touches_precise(op)) op.attrs.set(Attr::kFp8, 1);
      }
    }
  }
}

}  // namespace spillway
