// The state of a training: what lasts from step to step and cannot be computed again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "parallel/layout.h"
#include "parallel/mesh.h"
#include "program/tensor.h"

namespace spillway {

// A parameter, master weight, moment or router bias, as the whole model has it.
struct StateTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<Dim> dims;
  bool divided = true;  // false: every rank has all of it (a router's bias)

  bool operator==(const StateTensor&) const = default;
};

// By full name: the name of the Session's buffer. `model` as build_model() makes it, not sharded.
[[nodiscard]] std::map<std::string, StateTensor> state_of(const Model& model);

// The elements of a tensor that lie in a rank's buffer.
[[nodiscard]] Layout layout_on(const StateTensor& tensor, const Mesh& mesh);
// Whether this rank writes its buffer: of ranks that have the same elements one does.
[[nodiscard]] bool writes(const StateTensor& tensor, const Mesh& mesh);

}  // namespace spillway
