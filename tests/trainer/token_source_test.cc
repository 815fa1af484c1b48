#include "trainer/token_source.h"

#include <gmock/gmock.h>

#include <numeric>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/synthetic_source.h"
#include "trainer/text_source.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> read(const TokenSource& source, int64_t begin, int64_t count) {
  std::vector<int32_t> ids(count);
  source.read(begin, ids);
  return ids;
}

TEST(TextSource, EveryByteIsAToken) {
  const TempDir dir;
  std::string text(10'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 256);
  const TextSource source(dir.write("a.txt", text));
  EXPECT_EQ(source.size(), 10'000);
  EXPECT_THAT(read(source, 254, 4), ElementsAre(254, 255, 0, 1));
  const std::vector<int32_t> all = read(source, 0, 10'000);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int32_t>(i % 256));
}

TEST(TextSource, BadFiles) {
  const TempDir dir;
  const auto error = [](const std::string& path) {
    return message_of<DataError>([&] { const TextSource source(path); });
  };
  EXPECT_THAT(error(dir.path("none.txt").string()), HasSubstr("none.txt: No such file"));
  EXPECT_THAT(error(dir.write("empty.txt", "")), HasSubstr("empty.txt is empty"));
}

TEST(TextSource, AFileThatShrinksIsAnErrorNotACrash) {
  const TempDir dir;
  const std::string path = dir.write("a.txt", std::string(1000, 'x'));
  const TextSource source(path);
  std::filesystem::resize_file(path, 10);
  EXPECT_THAT(message_of<DataError>([&] { (void)read(source, 0, 1000); }),
              HasSubstr("a.txt ends at byte 10; 990 more bytes are expected"));
}

TEST(ConcatSource, ReadsAcrossBorders) {
  const TempDir dir;
  const ConcatSource source({std::make_shared<TextSource>(dir.write("a", "abc")),
                             std::make_shared<TextSource>(dir.write("b", "d")),
                             std::make_shared<TextSource>(dir.write("c", "efg"))});
  EXPECT_EQ(source.size(), 7);
  for (int64_t begin = 0; begin < 7; ++begin) {
    for (int64_t count = 1; begin + count <= 7; ++count) {
      std::vector<int32_t> expected(count);
      std::iota(expected.begin(), expected.end(), 'a' + begin);
      EXPECT_EQ(read(source, begin, count), expected) << begin << " " << count;
    }
  }
}

TEST(SliceSource, IsAWindow) {
  const TempDir dir;
  const SliceSource source(std::make_shared<TextSource>(dir.write("a", "abcdef")), 2, 5);
  EXPECT_EQ(source.size(), 3);
  EXPECT_THAT(read(source, 0, 3), ElementsAre('c', 'd', 'e'));
}

TEST(SyntheticSource, DependsOnSeedAndIndexAlone) {
  const SyntheticSource a(int64_t{1} << 40, 97, 1), b(int64_t{1} << 40, 97, 2);
  const std::vector<int32_t> whole = read(a, (int64_t{1} << 40) - 1000, 1000);
  EXPECT_EQ(read(a, (int64_t{1} << 40) - 3, 3), std::vector<int32_t>(whole.end() - 3, whole.end()));
  EXPECT_NE(read(b, (int64_t{1} << 40) - 1000, 1000), whole);
  for (const int32_t id : whole) EXPECT_TRUE(id >= 0 && id < 97);
}

}  // namespace
}  // namespace spillway
