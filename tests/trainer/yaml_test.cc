#include "trainer/yaml.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::HasSubstr;

std::string parse_error(const std::string& text) {
  return message_of<ConfigError>([&] { (void)parse_yaml(text, "a.yaml"); });
}

TEST(Yaml, KeepsValuesAndLines) {
  const YamlNode root = parse_yaml("a: 1\n\nb:\n  c: [x, y]\n", "dir/a.yaml");
  EXPECT_EQ(root.find("a")->scalar, "1");
  const YamlNode* c = root.find("b")->find("c");
  EXPECT_EQ(c->where(), "dir/a.yaml:4");
  ASSERT_EQ(c->items.size(), 2u);
  EXPECT_EQ(c->items[1].scalar, "y");
  EXPECT_EQ(root.find("d"), nullptr);
}

TEST(Yaml, AnEmptyFileIsEmpty) {
  EXPECT_EQ(parse_yaml("", "a.yaml").kind, YamlNode::Kind::kNull);
  EXPECT_EQ(parse_yaml("# only a remark\n", "a.yaml").kind, YamlNode::Kind::kNull);
}

TEST(Yaml, SyntaxErrorsNameFileAndLine) {
  EXPECT_THAT(parse_error("a: 1\nb: [1, 2\n"), HasSubstr("a.yaml:3: "));
  EXPECT_THAT(parse_error("a: 1\n  b: 2\n"), HasSubstr("a.yaml:2: "));
}

TEST(Yaml, AKeyStandsOnce) {
  EXPECT_THAT(parse_error("a:\n  b: 1\n  c: 2\n  b: 3\n"),
              HasSubstr("a.yaml:4: key b stands twice (first on line 2)"));
}

TEST(Yaml, KeysAreWords) {
  EXPECT_THAT(parse_error("? [1, 2]\n: 3\n"), HasSubstr("a key must be a plain word"));
}

TEST(Yaml, OneDocument) { EXPECT_THAT(parse_error("a: 1\n---\nb: 2\n"), HasSubstr("2 documents")); }

TEST(Yaml, BombsAreBounded) {
  EXPECT_THAT(parse_error("a: &x\n  b: *x\n"), HasSubstr("nested deeper"));
  std::string laughs = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; ++i) {
    laughs +=
        fmt::format("a{0}: &a{0} [*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(parse_error(laughs), HasSubstr("more than 100000 values"));
  EXPECT_THAT(parse_error(std::string(100'000, '[')), HasSubstr("config error: "));
  EXPECT_THAT(parse_error(std::string(100'000, '{')), HasSubstr("config error: "));
}

TEST(Yaml, FilesThatCannotBeRead) {
  const TempDir dir;
  const auto error = [](const std::filesystem::path& path) {
    return message_of<ConfigError>([&] { (void)load_yaml(path); });
  };
  EXPECT_THAT(error(dir.path("none.yaml")), HasSubstr("none.yaml: No such file"));
  EXPECT_THAT(error(dir.path()), HasSubstr("it is a folder"));
  EXPECT_THAT(error(dir.write("big.yaml", std::string(2 << 20, ' '))), HasSubstr("larger than"));
}

}  // namespace
}  // namespace spillway
