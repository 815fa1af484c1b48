// Random tokens, for benchmarks and tests: no file, no pattern to learn.
#pragma once

#include "trainer/mix64.h"
#include "trainer/token_source.h"

namespace spillway {

// Token i depends on the seed and i alone.
class SyntheticSource : public TokenSource {
 public:
  SyntheticSource(int64_t tokens, int64_t vocab_size, uint64_t seed)
      : tokens_(tokens), vocab_size_(static_cast<uint64_t>(vocab_size)), key_(mix64(seed)) {}
  [[nodiscard]] int64_t size() const override { return tokens_; }
  void read(int64_t begin, std::span<int32_t> out) const override {
    auto index = static_cast<uint64_t>(begin);
    for (int32_t& id : out) id = static_cast<int32_t>(mix64(key_ ^ index++) % vocab_size_);
  }

 private:
  int64_t tokens_;
  uint64_t vocab_size_, key_;
};

}  // namespace spillway
