#include "trainer/metrics.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

MetricsLog::Warn into(std::vector<std::string>& warnings) {
  return [&warnings](const std::string& text) { warnings.push_back(text); };
}

TEST(MetricsLog, ALineARecordAtOnce) {
  const TempDir dir;
  std::vector<std::string> warnings;
  MetricsLog log(dir.path(), into(warnings));
  log.write({{"step", 0}});
  EXPECT_EQ(dir.read("metrics.jsonl"), "{\"step\":0}\n");
  log.write({{"step", 1}});
  EXPECT_EQ(dir.read("metrics.jsonl"), "{\"step\":0}\n{\"step\":1}\n");
  EXPECT_TRUE(warnings.empty());
}

TEST(MetricsLog, ASecondRunLosesNothingOfTheFirst) {
  const TempDir dir;
  std::vector<std::string> warnings;
  dir.write("metrics.jsonl", "{\"step\":0}\n{\"ste");  // killed in the middle of a line
  MetricsLog(dir.path(), into(warnings)).write({{"step", 1}});
  EXPECT_EQ(dir.read("metrics.jsonl"), "{\"step\":0}\n{\"ste\n{\"step\":1}\n");
}

TEST(MetricsLog, AFullDiskWarnsOnceAndTrainingGoesOn) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir.path("metrics.jsonl"));
  std::vector<std::string> warnings;
  MetricsLog log(dir.path(), into(warnings));
  for (int step = 0; step < 3; ++step) log.write({{"step", step}});
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("No space left on device; training goes on")));
}

TEST(MetricsLog, AFolderThatGoesWarnsOnce) {
  const TempDir dir;
  create_output_directory(dir.path("run"));
  std::vector<std::string> warnings;
  MetricsLog log(dir.path("run"), into(warnings));
  std::filesystem::remove_all(dir.path("run"));
  for (int step = 0; step < 3; ++step) log.write({{"step", step}});
  EXPECT_THAT(warnings, SizeIs(1));
}

TEST(MetricsLog, BadUtf8IsReplaced) {
  const TempDir dir;
  std::vector<std::string> warnings;
  MetricsLog(dir.path(), into(warnings)).write({{"path", "a\xff"}});
  EXPECT_THAT(dir.read("metrics.jsonl"), HasSubstr("{\"path\":\"a"));
}

TEST(OutputDirectory, AnUnwritableFolderIsAnErrorAtStart) {
  const TempDir dir;
  create_output_directory(dir.path("a/b"));
  create_output_directory(dir.path("a/b"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path("a/b")));
  dir.write("file", "x");
  EXPECT_THAT(message_of<ConfigError>([&] { create_output_directory(dir.path("file/run")); }),
              HasSubstr("output.directory " + dir.path("file/run").string() + ": cannot be made"));
  EXPECT_THAT(message_of<ConfigError>([&] { create_output_directory(dir.path("file")); }),
              HasSubstr("output.directory"));
  EXPECT_THAT(message_of<ConfigError>([&] { MetricsLog(dir.path("none"), [](auto&) {}); }),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace spillway
