#include "trainer/token_source.h"

#include <algorithm>

namespace spillway {

ConcatSource::ConcatSource(std::vector<std::shared_ptr<const TokenSource>> parts)
    : parts_(std::move(parts)), begin_{0} {
  for (const auto& part : parts_) begin_.push_back(begin_.back() + part->size());
}

void ConcatSource::read(int64_t begin, std::span<int32_t> out) const {
  auto part = std::ranges::upper_bound(begin_, begin) - begin_.begin() - 1;
  for (; !out.empty(); ++part) {
    const int64_t count = std::min(static_cast<int64_t>(out.size()), begin_.at(part + 1) - begin);
    parts_[part]->read(begin - begin_[part], out.first(count));
    out = out.subspan(count);
    begin += count;
  }
}

SliceSource::SliceSource(std::shared_ptr<const TokenSource> whole, int64_t begin, int64_t end)
    : whole_(std::move(whole)), begin_(begin), end_(end) {}

void SliceSource::read(int64_t begin, std::span<int32_t> out) const {
  whole_->read(begin_ + begin, out);
}

}  // namespace spillway
