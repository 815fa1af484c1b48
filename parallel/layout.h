// Which elements of a parameter a rank has.
//
// First dims are cut over the axes that their Dim names: that is the tensor as this rank's compute
// reads it. Then its elements, whatever they mean, are divided over the axes that are left
// (parallel/gather): that is what the rank keeps between steps, with its gradient and optimizer state.
// Padding (of the vocabulary, of the last shards) is zero and stays zero.
#pragma once

#include <functional>
#include <vector>

#include "parallel/group.h"
#include "parallel/mesh.h"
#include "program/tensor.h"

namespace spillway {

[[nodiscard]] uint8_t axes_of(Dim dim);

struct Layout {
  // One dim: this rank has `size` of `whole` from `begin` on; begin + size may pass whole.
  struct Cut {
    int64_t whole, begin, size;
  };
  std::vector<Cut> cuts;   // one a dim
  uint8_t shard_axes = 0;  // the axes that cut no dim
  int64_t shard = 0;       // elements of every rank's shard, padding included
  Part part = {0, 0};      // this rank's, of the elements of local_shape()

  [[nodiscard]] Shape whole_shape() const;
  [[nodiscard]] Shape local_shape() const;
};

// Throws VerifyError for a dim other than kVocab that does not divide.
[[nodiscard]] Layout layout_of(const Shape& whole, const std::vector<Dim>& dims, const Mesh& mesh);

// Visits this rank's shard in runs of `count` elements that are contiguous on both sides: from `shard`
// on in the rank's own buffer, from `whole` on in the parameter. Padding is not visited.
void for_each_run(const Layout& layout,
                  const std::function<void(int64_t shard, int64_t whole, int64_t count)>& visit);

}  // namespace spillway
