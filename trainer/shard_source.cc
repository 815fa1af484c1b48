#include "trainer/shard_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "program/error.h"

namespace spillway {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr std::array<char, 8> kMagic{'S', 'P', 'L', 'W', 'T', 'O', 'K', '1'};
constexpr uint32_t kVersion = 1;
constexpr int64_t kBlockTokens = 4096;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t bytes_per_token = 0;
  uint64_t tokens = 0;
  uint64_t vocab_size = 0;
};
static_assert(sizeof(Header) == 32);

uint32_t bytes_for(int64_t vocab_size) { return vocab_size <= 65536 ? 2 : 4; }

void check_header(const Header& header, const InputFile& file) {
  const auto fail = [&](const std::string& what) {
    throw DataError(fmt::format("{}: {}", file.path(), what));
  };
  if (header.magic != kMagic) fail("not a token shard: it does not begin with SPLWTOK1");
  if (header.version != kVersion) {
    fail(
        fmt::format("shard version {} at byte 8; this program reads {}", header.version, kVersion));
  }
  if (header.bytes_per_token != 2 && header.bytes_per_token != 4) {
    fail(fmt::format("{} bytes per token at byte 12; must be 2 or 4", header.bytes_per_token));
  }
  if (header.tokens == 0) fail("holds no tokens (byte 16)");
  if (header.vocab_size == 0 || header.vocab_size > std::numeric_limits<int32_t>::max()) {
    fail(fmt::format("vocabulary of {} at byte 24; must be in [1, 2^31 - 1]", header.vocab_size));
  }
  const uint64_t held = (file.size() - sizeof(Header)) / header.bytes_per_token;
  const bool whole = (file.size() - sizeof(Header)) % header.bytes_per_token == 0;
  if (held < header.tokens) {
    fail(fmt::format("truncated: the header (byte 16) promises {} tokens, the file has room for {}",
                     header.tokens, held));
  }
  if (held > header.tokens || !whole) {
    fail(fmt::format("{} bytes too long for the {} tokens its header (byte 16) promises",
                     file.size() - sizeof(Header) - header.tokens * header.bytes_per_token,
                     header.tokens));
  }
}

}  // namespace

ShardSource::ShardSource(const std::string& path, int64_t model_vocab_size) : file_(path) {
  if (file_.size() < static_cast<int64_t>(sizeof(Header))) {
    throw DataError(fmt::format("{}: {} bytes are too few for a token shard, whose header has {}",
                                path, file_.size(), sizeof(Header)));
  }
  Header header;
  file_.read(0, std::as_writable_bytes(std::span(&header, 1)));
  check_header(header, file_);
  bytes_per_token_ = header.bytes_per_token;
  tokens_ = static_cast<int64_t>(header.tokens);
  vocab_size_ = static_cast<int64_t>(header.vocab_size);
  if (vocab_size_ > model_vocab_size) {
    throw DataError(fmt::format("{}: its vocabulary of {} is larger than the model's vocab_size {}",
                                path, vocab_size_, model_vocab_size));
  }
}

void ShardSource::read(int64_t begin, std::span<int32_t> out) const {
  bytes_per_token_ == 2 ? read_ids<uint16_t>(begin, out) : read_ids<uint32_t>(begin, out);
}

template <class Id>
void ShardSource::read_ids(int64_t begin, std::span<int32_t> out) const {
  std::array<Id, kBlockTokens> ids;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), ids.size());
    file_.read(offset_of(begin), std::as_writable_bytes(std::span(ids).first(count)));
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] >= vocab_size_) {
        throw DataError(fmt::format("{} at byte {}: id {} is outside the vocabulary of {}",
                                    file_.path(), offset_of(begin + static_cast<int64_t>(i)),
                                    ids[i], vocab_size_));
      }
      out[i] = static_cast<int32_t>(ids[i]);
    }
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

int64_t ShardSource::offset_of(int64_t token) const {
  return static_cast<int64_t>(sizeof(Header)) + token * bytes_per_token_;
}

ShardWriter::ShardWriter(const std::string& path, int64_t vocab_size)
    : path_(path), file_(path), vocab_size_(vocab_size) {
  const Header header{};  // of zero tokens, which no reader takes; finish() writes the real one
  file_.append(std::as_bytes(std::span(&header, 1)));
}

void ShardWriter::append(std::span<const int32_t> ids) {
  bytes_for(vocab_size_) == 2 ? append_ids<uint16_t>(ids) : append_ids<uint32_t>(ids);
}

template <class Id>
void ShardWriter::append_ids(std::span<const int32_t> ids) {
  std::vector<Id> block;
  while (!ids.empty()) {
    const size_t count = std::min<size_t>(ids.size(), kBlockTokens);
    block.clear();
    for (const int32_t id : ids.first(count)) {
      if (id < 0 || id >= vocab_size_) {
        throw DataError(fmt::format("{}: id {} of token {} is outside the vocabulary of {}", path_,
                                    id, tokens_ + static_cast<int64_t>(block.size()), vocab_size_));
      }
      block.push_back(static_cast<Id>(id));
    }
    file_.append(std::as_bytes(std::span(block)));
    tokens_ += static_cast<int64_t>(count);
    ids = ids.subspan(count);
  }
}

void ShardWriter::finish() {
  if (tokens_ == 0) throw DataError(fmt::format("{}: no tokens to write", path_));
  const Header header{.bytes_per_token = bytes_for(vocab_size_),
                      .tokens = static_cast<uint64_t>(tokens_),
                      .vocab_size = static_cast<uint64_t>(vocab_size_)};
  file_.overwrite(0, std::as_bytes(std::span(&header, 1)));
  file_.publish();
}

}  // namespace spillway
