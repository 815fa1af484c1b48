#include "parallel/layout.h"

#include <algorithm>

#include "program/error.h"

namespace spillway {

uint8_t axes_of(Dim dim) {
  switch (dim) {
    case Dim::kWhole: return 0;
    case Dim::kKvHeads: return axis::kTensorKv;
    case Dim::kExperts: return axis::kExpert;
    case Dim::kHeads:
    case Dim::kMlp:
    case Dim::kVocab: return axis::kTensor;
  }
  return 0;
}

Shape Layout::whole_shape() const {
  Shape shape;
  for (const Cut& cut : cuts) shape.push_back(cut.whole);
  return shape;
}

Shape Layout::local_shape() const {
  Shape shape;
  for (const Cut& cut : cuts) shape.push_back(cut.size);
  return shape;
}

Layout layout_of(const Shape& whole, const std::vector<Dim>& dims, const Mesh& mesh) {
  Layout layout;
  uint8_t cutting = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const Dim dim = dims.empty() ? Dim::kWhole : dims[i];
    const int parts = mesh.size(axes_of(dim));
    if (dim != Dim::kVocab && whole[i] % parts != 0) {
      throw VerifyError("a dim of " + std::to_string(whole[i]) + " does not make " +
                        std::to_string(parts) + " parts");
    }
    const int64_t size = (whole[i] + parts - 1) / parts;
    layout.cuts.push_back({whole[i], mesh.index(axes_of(dim)) * size, size});
    cutting |= axes_of(dim);
  }
  layout.shard_axes = static_cast<uint8_t>(axis::kShard & ~cutting);
  const int64_t elements = element_count(layout.local_shape());
  const int shards = mesh.size(layout.shard_axes);
  layout.shard = (elements + shards - 1) / shards;
  layout.part = part_of(elements, shards, mesh.index(layout.shard_axes));
  return layout;
}

void for_each_run(const Layout& layout,
                  const std::function<void(int64_t shard, int64_t whole, int64_t count)>& visit) {
  const std::vector<Layout::Cut>& cuts = layout.cuts;
  const int64_t row = cuts.back().size;  // local elements of an innermost row
  for (int64_t at = layout.part.begin; at < layout.part.end;) {
    const int64_t column = at % row;
    const int64_t end = std::min(layout.part.end, at + row - column);
    int64_t whole = 0, stride = 1, rest = at;
    bool exists = true;
    for (size_t i = cuts.size(); i-- > 0;) {
      const int64_t index = cuts[i].begin + rest % cuts[i].size;
      if (i + 1 < cuts.size()) exists &= index < cuts[i].whole;
      whole += index * stride;
      stride *= cuts[i].whole;
      rest /= cuts[i].size;
    }
    const int64_t there = cuts.back().whole - (cuts.back().begin + column);  // before padding
    const int64_t count = std::min(end - at, there);
    if (exists && count > 0) visit(at - layout.part.begin, whole, count);
    at = end;
  }
}

}  // namespace spillway
