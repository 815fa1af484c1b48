#include "trainer/shard_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string header(uint32_t bytes_per_token, uint64_t tokens, uint64_t vocab) {
  return "SPLWTOK1" + raw(uint32_t{1}) + raw(bytes_per_token) + raw(tokens) + raw(vocab);
}

std::vector<int32_t> read(const TokenSource& source, int64_t begin, int64_t count) {
  std::vector<int32_t> ids(count);
  source.read(begin, ids);
  return ids;
}

std::string open_error(const std::string& path, int64_t vocab = 97) {
  return message_of<DataError>([&] { ShardSource(path, vocab); });
}

TEST(ShardSource, RoundTripsBothWidths) {
  for (const int64_t vocab : {int64_t{97}, int64_t{65536}, int64_t{128256}}) {
    const TempDir dir;
    std::vector<int32_t> ids(10'000);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7919 % vocab);
    ids[17] = static_cast<int32_t>(vocab - 1);  // the largest id is an id
    ShardWriter writer(dir.path("a.bin").string(), vocab);
    writer.append(std::span(ids).first(4999));
    writer.append(std::span(ids).subspan(4999));
    writer.finish();

    const ShardSource source(dir.path("a.bin").string(), vocab);
    EXPECT_EQ(source.size(), 10'000);
    EXPECT_EQ(source.vocab_size(), vocab);
    EXPECT_EQ(read(source, 0, 10'000), ids);
    EXPECT_THAT(read(source, 9999, 1), ElementsAre(ids[9999]));
    EXPECT_EQ(std::filesystem::file_size(dir.path("a.bin")),
              32u + 10'000u * (vocab <= 65536 ? 2 : 4));
  }
}

TEST(ShardSource, AnIdOutsideTheVocabularyNamesFileAndByte) {
  const TempDir dir;
  const std::string ids = raw(uint16_t{3}) + raw(uint16_t{96}) + raw(uint16_t{97});
  const ShardSource source(dir.write("a.bin", header(2, 3, 97) + ids), 97);
  EXPECT_THAT(read(source, 0, 2), ElementsAre(3, 96));
  EXPECT_THAT(message_of<DataError>([&] { (void)read(source, 0, 3); }),
              HasSubstr("a.bin at byte 36: id 97 is outside the vocabulary of 97"));

  // 2^32 - 3 must not pass as -3.
  const ShardSource wide(dir.write("b.bin", header(4, 1, 97) + raw(uint32_t{4294967293u})), 97);
  EXPECT_THAT(message_of<DataError>([&] { (void)read(wide, 0, 1); }), HasSubstr("id 4294967293"));
}

TEST(ShardSource, TheModelMayHaveTheLargerVocabulary) {
  const TempDir dir;
  const std::string path = dir.write("a.bin", header(2, 1, 97) + raw(uint16_t{96}));
  EXPECT_EQ(open_error(path, 128), "");
  EXPECT_THAT(open_error(path, 96),
              HasSubstr("vocabulary of 97 is larger than the model's vocab_size 96"));
}

TEST(ShardSource, FilesThatAreNoShards) {
  const TempDir dir;
  const std::string ids = raw(uint16_t{1}) + raw(uint16_t{2});
  const auto error = [&](const std::string& contents) {
    return open_error(dir.write("a.bin", contents));
  };
  EXPECT_EQ(error(header(2, 2, 97) + ids), "");
  EXPECT_THAT(open_error(dir.path("none.bin").string()), HasSubstr("none.bin: No such file"));
  EXPECT_THAT(open_error(dir.path().string()), HasSubstr("not a regular file"));
  EXPECT_THAT(error(""), HasSubstr("0 bytes are too few"));
  EXPECT_THAT(error(header(2, 2, 97).substr(0, 31)), HasSubstr("31 bytes are too few"));
  EXPECT_THAT(error("SPLWTOK2" + header(2, 2, 97).substr(8) + ids), HasSubstr("not a token shard"));
  EXPECT_THAT(error(header(3, 2, 97) + ids), HasSubstr("3 bytes per token at byte 12"));
  EXPECT_THAT(error(header(2, 0, 97)), HasSubstr("no tokens"));
  EXPECT_THAT(error(header(2, 2, 0) + ids), HasSubstr("vocabulary of 0"));
  EXPECT_THAT(
      error(header(2, 3, 97) + ids),
      HasSubstr("truncated: the header (byte 16) promises 3 tokens, the file has room for 2"));
  EXPECT_THAT(error(header(2, 2, 97) + ids.substr(0, 3)), HasSubstr("truncated"));
  EXPECT_THAT(error(header(2, 1, 97) + ids), HasSubstr("2 bytes too long for the 1 tokens"));
  EXPECT_THAT(error(header(4, 1, 97) + ids + "x"), HasSubstr("1 bytes too long"));
  EXPECT_THAT(error(header(4, uint64_t{1} << 62, 97) + ids), HasSubstr("truncated"));
  EXPECT_THAT(error(header(2, UINT64_MAX, UINT64_MAX) + ids), HasSubstr("vocabulary"));
}

// Byte offsets past 2^32 and token indices past 2^31; the file has a hole and takes no space.
TEST(ShardSource, MoreThanTwoBillionTokens) {
  constexpr int64_t kTokens = (int64_t{1} << 31) + 1001;
  const TempDir dir;
  const std::string path = dir.write("a.bin", header(2, kTokens, 97));
  std::filesystem::resize_file(path, 32 + 2 * kTokens);
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(32 + 2 * (kTokens - 2));
    file << raw(uint16_t{41}) << raw(uint16_t{42});
  }
  const auto source = std::make_shared<ShardSource>(path, 97);
  EXPECT_EQ(source->size(), kTokens);
  EXPECT_THAT(read(*source, kTokens - 3, 3), ElementsAre(0, 41, 42));

  const ConcatSource twice({source, source});
  EXPECT_EQ(twice.size(), 2 * kTokens);
  EXPECT_THAT(read(twice, kTokens - 2, 4), ElementsAre(41, 42, 0, 0));
  EXPECT_THAT(read(twice, 2 * kTokens - 1, 1), ElementsAre(42));
}

TEST(ShardWriter, RefusesAndLeavesNothing) {
  const TempDir dir;
  {
    ShardWriter writer(dir.path("a.bin").string(), 97);
    const int32_t ids[] = {1, 97};
    EXPECT_THAT(message_of<DataError>([&] { writer.append(ids); }),
                HasSubstr("id 97 of token 1 is outside the vocabulary of 97"));
    EXPECT_THAT(message_of<DataError>([&] { writer.finish(); }), HasSubstr("no tokens"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_THAT(message_of<std::runtime_error>(
                  [&] { ShardWriter writer(dir.path("no/a.bin").string(), 97); }),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace spillway
