// Tables as users write them: what is read, and what is refused before anything runs.
#include "trainer/report/bench_table.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "program/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BenchTableFile : public ::testing::Test {
 protected:
  BenchTableFile() : folder_(std::filesystem::temp_directory_path() / "spillway_bench_table") {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "run.yaml") << "model: {}\n";
  }
  ~BenchTableFile() override { std::filesystem::remove_all(folder_); }

  // The table with `rows` below its head.
  std::string write(const std::string& rows) {
    const std::filesystem::path file = folder_ / "table.yaml";
    std::ofstream(file) << "title: T\nsource: S\nrows:\n" << rows;
    return file;
  }
  std::string error_of(const std::string& rows) {
    try {
      (void)load_bench_table(write(rows));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

constexpr const char* kRow =
    "  a: {title: A, group: G, config: run.yaml, hardware: h100_sxm, ranks: 2,\n"
    "      published: {seconds: {value: 2.5, tag: derived, source: \"5 / 2\"}}}\n";

TEST_F(BenchTableFile, ReadsARow) {
  const BenchTable table = load_bench_table(write(kRow));
  ASSERT_EQ(table.rows.size(), 1);
  const BenchRow& row = table.rows[0];
  EXPECT_EQ(row.id, "a");
  EXPECT_EQ(row.config, folder_ / "run.yaml");
  EXPECT_EQ(row.ranks, 2);
  ASSERT_TRUE(row.seconds.has_value());
  EXPECT_EQ(row.seconds->value, 2.5);
  EXPECT_EQ(row.seconds->tag, Tag::kDerived);
  EXPECT_EQ(row.seconds->source, "5 / 2");
  EXPECT_FALSE(row.tflops_per_device.has_value());
}

TEST_F(BenchTableFile, NamesWhatIsWrong) {
  const std::string head = "  a: {title: A, group: G, config: run.yaml, hardware: h100_sxm, ranks: ";
  EXPECT_THAT(error_of("  {}\n"), HasSubstr("rows"));
  EXPECT_THAT(error_of(head + "0}\n"), AllOf(HasSubstr("table.yaml:4"), HasSubstr("rows.a.ranks")));
  EXPECT_THAT(error_of(head + "1, row: 1}\n"), HasSubstr("rows.a.row is not a key"));
  EXPECT_THAT(error_of("  a: {title: A, group: G, config: none.yaml, hardware: h, ranks: 1}\n"),
              HasSubstr("none.yaml"));
  EXPECT_THAT(error_of(head + "1, published: {seconds: {value: -1, tag: quoted, source: s}}}\n"),
              HasSubstr("greater than 0"));
  EXPECT_THAT(error_of(head + "1, published: {seconds: {value: 1, tag: guessed, source: s}}}\n"),
              HasSubstr("quoted, derived, inferred"));
  EXPECT_THAT(error_of(head + "1, published: {seconds: {value: 1, tag: quoted}}}\n"),
              HasSubstr("source is missing"));
  EXPECT_THAT(
      error_of(head + "1, published: {speedup: {value: 1, tag: quoted, source: s, over: b}}}\n"),
      AllOf(HasSubstr("over"), HasSubstr("must be another row: a")));
}

TEST(BenchTable, TheShippedTablesLoad) {
  for (const std::string name : {"paper", "validation"}) {
    const BenchTable table =
        load_bench_table(std::string(SPILLWAY_SOURCE_DIR) + "/configs/" + name + "/table.yaml");
    EXPECT_EQ(table.name, name);
    EXPECT_GE(table.rows.size(), 12) << name;
  }
}

TEST(BenchTable, AnUnknownNameIsSaidWithThoseThereAre) {
  try {
    (void)load_bench_table("papr");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bench papr"));
  }
}

}  // namespace
}  // namespace spillway
