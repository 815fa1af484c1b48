// Where tokens come from: a long, addressable run of ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

// Reads may come from several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  [[nodiscard]] virtual int64_t size() const = 0;  // tokens
  // Fills `out` with tokens [begin, begin + out.size()), which must lie inside. Throws DataError
  // naming file and byte offset on what cannot be read or is no id of the model's vocabulary.
  virtual void read(int64_t begin, std::span<int32_t> out) const = 0;
};

// Several sources, one behind the other.
class ConcatSource : public TokenSource {
 public:
  explicit ConcatSource(std::vector<std::shared_ptr<const TokenSource>> parts);
  [[nodiscard]] int64_t size() const override { return begin_.back(); }
  void read(int64_t begin, std::span<int32_t> out) const override;

 private:
  std::vector<std::shared_ptr<const TokenSource>> parts_;
  std::vector<int64_t> begin_;  // of each part; then the end of the last
};

// Tokens [begin, end) of another source.
class SliceSource : public TokenSource {
 public:
  SliceSource(std::shared_ptr<const TokenSource> whole, int64_t begin, int64_t end);
  [[nodiscard]] int64_t size() const override { return end_ - begin_; }
  void read(int64_t begin, std::span<int32_t> out) const override;

 private:
  std::shared_ptr<const TokenSource> whole_;
  int64_t begin_, end_;
};

}  // namespace spillway
