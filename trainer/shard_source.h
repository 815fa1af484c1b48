// Pre-tokenised data: the shard format, a reader and a writer.
//
// A shard is a header of 32 bytes and then the ids, all little-endian:
//
//   offset  size  what
//   0       8     "SPLWTOK1"
//   8       4     version: 1
//   12      4     bytes per token: 2 or 4
//   16      8     tokens: 1 or more
//   24      8     vocabulary: every id is below it
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/atomic_file.h"
#include "trainer/input_file.h"
#include "trainer/token_source.h"

namespace spillway {

class ShardSource : public TokenSource {
 public:
  // Throws DataError on a file that is no shard, is longer or shorter than its header says, or whose
  // vocabulary is larger than the model's.
  ShardSource(const std::string& path, int64_t model_vocab_size);
  [[nodiscard]] int64_t size() const override { return tokens_; }
  [[nodiscard]] int64_t vocab_size() const { return vocab_size_; }
  void read(int64_t begin, std::span<int32_t> out) const override;

 private:
  [[nodiscard]] int64_t offset_of(int64_t token) const;
  template <class Id>
  void read_ids(int64_t begin, std::span<int32_t> out) const;

  InputFile file_;
  int64_t bytes_per_token_ = 0, tokens_ = 0, vocab_size_ = 0;
};

// The shard appears under its name only when finish() has returned.
class ShardWriter {
 public:
  // Ids take 2 bytes where the vocabulary allows it, else 4.
  ShardWriter(const std::string& path, int64_t vocab_size);
  void append(std::span<const int32_t> ids);  // throws DataError on an id outside the vocabulary
  void finish();                              // throws DataError when there are no tokens

 private:
  template <class Id>
  void append_ids(std::span<const int32_t> ids);

  std::string path_;
  AtomicFile file_;
  int64_t vocab_size_, tokens_ = 0;
};

}  // namespace spillway
