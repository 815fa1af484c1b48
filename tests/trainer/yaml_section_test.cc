#include "trainer/yaml_section.h"

#include <gmock/gmock.h>

#include <array>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

YamlSection section(const std::string& text, const std::vector<std::string>& overrides = {}) {
  std::vector<YamlOverride> parsed;
  for (const std::string& override : overrides) parsed.push_back(parse_override(override));
  return {parse_yaml(text, "a.yaml"), "", std::move(parsed)};
}

template <class F>
std::string error_of(F&& call) {
  return message_of<ConfigError>(call);
}

std::string integer_error(const std::string& value, IntRange range = {}) {
  return error_of([&] { (void)section("n: " + value).integer("n", 1, range); });
}

std::string real_error(const std::string& value, RealRange range = {}) {
  return error_of([&] { (void)section("x: " + value).real("x", 1.0, range); });
}

TEST(YamlSection, ReadsTypedValuesOrDefaults) {
  YamlSection s = section("n: -12\nx: 3e-4\nb: yes\ns: no\nl: [p, q]\n");
  EXPECT_EQ(s.integer("n", 1), -12);
  EXPECT_EQ(s.integer("m", 7), 7);
  EXPECT_EQ(s.real("x", 1.0), 3e-4);
  EXPECT_EQ(s.real("y", 2.5), 2.5);
  EXPECT_TRUE(s.boolean("b", false));
  EXPECT_FALSE(s.boolean("c", false));
  EXPECT_EQ(s.string("s", "x"), "no");
  EXPECT_THAT(s.strings("l"), ElementsAre("p", "q"));
  EXPECT_THAT(s.strings("s"), ElementsAre("no"));
  EXPECT_TRUE(s.strings("absent").empty());
  s.finish();
}

TEST(YamlSection, IntegersAreDecimalDigits) {
  EXPECT_EQ(section("n: 9223372036854775807").integer("n", 1), INT64_MAX);
  EXPECT_EQ(section("n: 010").integer("n", 1), 10);
  for (const std::string bad :
       {"1e6", "1_000", "0x10", "1.0", "9223372036854775808", "ten", "''"}) {
    EXPECT_THAT(integer_error(bad), HasSubstr("must be a whole number")) << bad;
  }
  EXPECT_THAT(integer_error("1e6"), HasSubstr("a.yaml:1: n is 1e6; "));
  EXPECT_THAT(integer_error("[1]"), HasSubstr("n must be a single value"));
  EXPECT_THAT(integer_error(""), HasSubstr("n has no value"));
}

TEST(YamlSection, RangesNameTheirBounds) {
  EXPECT_THAT(integer_error("0", kPositive), HasSubstr("n is 0; must be at least 1"));
  EXPECT_THAT(integer_error("9", {.min = 1, .max = 8}), HasSubstr("must be in [1, 8]"));
  EXPECT_EQ(integer_error("8", {.min = 1, .max = 8}), "");
  EXPECT_THAT(real_error("0", kAboveZero), HasSubstr("x is 0; must be greater than 0"));
  EXPECT_THAT(real_error("1.0", {.min = 0, .max = 1, .max_open = true}), HasSubstr("in [0, 1)"));
  EXPECT_EQ(real_error("0", {.min = 0, .max = 1, .max_open = true}), "");
  for (const std::string bad : {".inf", "inf", "nan", "1e999", "1,5", "half"}) {
    EXPECT_THAT(real_error(bad), HasSubstr("x is " + bad)) << bad;
  }
}

TEST(YamlSection, ChoicesNameTheNearest) {
  constexpr std::array<Spelling<int>, 2> kColours{{{"red", 1}, {"green", 2}}};
  EXPECT_EQ(section("c: green").choice<int>("c", 1, kColours), 2);
  EXPECT_EQ(section("").choice<int>("c", 1, kColours), 1);
  EXPECT_THAT(error_of([&] { (void)section("c: gren").choice<int>("c", 1, kColours); }),
              HasSubstr("c is gren, did you mean green?; must be one of: red, green"));
}

TEST(YamlSection, RowsAreSectionsOfTheirColumns) {
  YamlSection s = section("t:\n  - [a, 1]\n  - [b, 2.5]\nu: []\nv: 3\n");
  std::vector<YamlSection> rows = s.rows("t", {"name", "x"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].string("name", kRequired), "a");
  EXPECT_EQ(rows[1].real("x", kRequired), 2.5);
  EXPECT_EQ(error_of([&] { (void)rows[1].integer("x", kRequired); }).substr(0, 39),
            "config error: a.yaml:3: t[1].x is 2.5; ");
  EXPECT_EQ(error_of([&] { (void)s.rows("t", {"x"}); }),
            "config error: a.yaml:2: t[0] has 2 values; must have 1: x");
  for (const char* key : {"u", "v"}) {
    EXPECT_THAT(error_of([&] { (void)s.rows(key, {"x", "y"}); }),
                HasSubstr(" must be a list of rows [x, y], one at least"));
  }
  EXPECT_THAT(error_of([&] { (void)s.rows("w", {"x"}); }), HasSubstr("w is missing"));
}

TEST(YamlSection, UnknownKeysNameThePathAndTheLegalOnes) {
  YamlSection root = section("train:\n  steps: 3\n  stepz: 4\n");
  YamlSection train = root.section("train");
  EXPECT_EQ(train.integer("steps", 1), 3);
  (void)train.integer("seed", 1);
  root.finish();
  EXPECT_EQ(error_of([&] { train.finish(); }),
            "config error: a.yaml:3: train.stepz is not a key, did you mean steps?; legal: steps, "
            "seed");
}

TEST(YamlSection, AMissingKeyPointsAtItsMisspelling) {
  YamlSection s = section("vocab_sise: 256\n");
  EXPECT_EQ(error_of([&] { (void)s.integer("vocab_size", kRequired); }),
            "config error: a.yaml:1: vocab_size is missing (but vocab_sise is there: a.yaml:1)");
}

TEST(YamlSection, OverridesReplaceAndAdd) {
  YamlSection root = section("train:\n  steps: 3\n", {"train.steps=5", "train.sead=7",
                                                      "train.steps=6", "data.path=[a, b]"});
  YamlSection train = root.section("train");
  EXPECT_EQ(train.integer("steps", 1), 6);
  EXPECT_EQ(train.integer("seed", 2), 2);
  EXPECT_EQ(
      error_of([&] { train.finish(); }),
      "config error: command line: train.sead is not a key, did you mean seed?; legal: steps, "
      "seed");
  YamlSection data = root.section("data");
  EXPECT_THAT(data.strings("path"), ElementsAre("a", "b"));
  root.finish();
}

TEST(YamlSection, OverridesOfNothingAreErrors) {
  YamlSection root = section("steps: 3\n", {"trian.steps=5"});
  (void)root.integer("steps", 1);
  (void)root.section("train");
  EXPECT_THAT(error_of([&] { root.finish(); }),
              HasSubstr("command line: trian is not a key, did you mean train?"));

  YamlSection scalar = section("steps: 3\n", {"steps.more=5"});
  (void)scalar.integer("steps", 1);
  EXPECT_THAT(error_of([&] { scalar.finish(); }), HasSubstr("steps.more does not exist"));
  for (const std::string bad : {"train.steps", "=5", "train.=5", ".steps=5", "a..b=5", ""}) {
    EXPECT_THAT(error_of([&] { (void)parse_override(bad); }), HasSubstr("is not section.key=value"))
        << bad;
  }
}

TEST(YamlSection, ASectionMayBeAFileBesideTheOneThatNamesIt) {
  const TempDir dir;
  dir.write("model/tiny.yaml", "size: 4\n");
  const std::string run = dir.write("run/a.yaml", "model: ../model/tiny.yaml\n");
  YamlSection root(load_yaml(run), "", {parse_override("model.more=5")});
  YamlSection model = root.section("model");
  EXPECT_EQ(model.integer("size", 1), 4);
  EXPECT_EQ(model.integer("more", 1), 5);
  EXPECT_THAT(error_of([&] { model.fail("size", "is odd"); }),
              HasSubstr("model/tiny.yaml:1: model.size is odd"));
}

TEST(YamlSection, ASectionFileOnTheCommandLineIsRelativeToTheCurrentFolder) {
  const TempDir dir;
  const std::string file = dir.write("other.yaml", "size: 9\n");
  YamlSection root = section("model: {size: 1}\n", {"model=" + file});
  EXPECT_EQ(root.section("model").integer("size", 1), 9);
}

TEST(YamlSection, BadSections) {
  EXPECT_THAT(error_of([] { (void)section("m: none.yaml").section("m"); }),
              HasSubstr("m is none.yaml; must be a mapping, or the path of a YAML file"));
  EXPECT_THAT(error_of([] { (void)section("m: [1]").section("m"); }),
              HasSubstr("m must be a mapping"));
  EXPECT_THAT(error_of([] { (void)section("[1]"); }),
              HasSubstr("a configuration must be a mapping"));
}

}  // namespace
}  // namespace spillway
