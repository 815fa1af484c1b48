#include "program/tensor.h"

#include "program/error.h"

namespace spillway {

int64_t size_of(DType dtype) { return dtype == DType::kBF16 ? 2 : 4; }

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kI32: return "i32";
  }
  return "?";
}

DType dtype_named(std::string_view name) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw ConfigError("unknown type " + std::string(name) + "; types: f32, bf16, i32");
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::kUnset: return "-";
    case Strategy::kDevice: return "device";
    case Strategy::kRemat: return "remat";
    case Strategy::kOffload: return "offload";
  }
  return "?";
}

}  // namespace spillway
