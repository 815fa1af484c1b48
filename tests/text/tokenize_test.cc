// `spillway tokenize`: the shards are the same however they came to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "program/error.h"
#include "tests/text/files.h"
#include "tests/trainer/temp_dir.h"
#include "text/tokenizer.h"
#include "trainer/shard_source.h"
#include "trainer/tokenize_command.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int32_t kEos = 1501;  // of tokenizer_llama3.json

std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  for (const json& sample : json::parse(test_data("tokenizer_llama3_golden.json"))) {
    texts.push_back(sample[0]);
  }
  return texts;
}

std::string jsonl_of(const std::vector<std::string>& texts, int copies) {
  std::string lines;
  for (int i = 0; i < copies; ++i) {
    for (const std::string& text : texts) lines += json{{"text", text}}.dump() + "\n";
  }
  return lines;
}

std::string gzip_of(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_of(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class TokenizeTest : public testing::Test {
 protected:
  TokenizeOptions options(const std::vector<std::string>& inputs, const std::string& out) const {
    return {.tokenizer = SPILLWAY_SOURCE_DIR "/tests/data/tokenizer_llama3.json",
            .inputs = inputs,
            .out = dir_.path(out).string(),
            .shard_tokens = 5000,
            .threads = 1};
  }
  void run(const TokenizeOptions& options) const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::tmpfile(), std::fclose);
    tokenize(options, log.get());
  }
  std::string error_of(const TokenizeOptions& options) const {
    return message_of<std::runtime_error>([&] { run(options); });
  }
  // All of a folder, by name.
  std::map<std::string, std::string> files_of(const std::string& out) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path(out))) {
      const std::string name = entry.path().filename().string();
      files[name] = dir_.read(out + "/" + name);
    }
    return files;
  }
  std::vector<int32_t> ids_of(const std::string& out) const {
    std::vector<int32_t> ids;
    const json index = json::parse(dir_.read(out + "/index.json"));
    for (const json& shard : index.at("shards")) {
      const ShardSource source(dir_.path(out + "/" + shard.at("file").get<std::string>()).string(),
                               1504);
      std::vector<int32_t> part(static_cast<size_t>(source.size()));
      source.read(0, part);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }
  TempDir dir_;
};

TEST_F(TokenizeTest, ShardsHoldEveryDocumentAndItsEnd) {
  const std::vector<std::string> texts = sample_texts();
  run(options({dir_.write("a.jsonl", jsonl_of(texts, 1))}, "out"));
  std::vector<int32_t> expected;
  int64_t documents = 0;
  for (const json& sample : json::parse(test_data("tokenizer_llama3_golden.json"))) {
    if (sample[0] == "") continue;
    const auto ids = sample[1].get<std::vector<int32_t>>();
    expected.insert(expected.end(), ids.begin(), ids.end());
    expected.push_back(kEos);
    ++documents;
  }
  EXPECT_EQ(ids_of("out"), expected);
  const json index = json::parse(dir_.read("out/index.json"));
  EXPECT_EQ(index["documents"], documents);
  EXPECT_EQ(index["tokens"], expected.size());
  EXPECT_FALSE(std::filesystem::exists(dir_.path("out/progress.json")));
}

TEST_F(TokenizeTest, ThreadsChangeNothing) {
  const std::vector<std::string> inputs{dir_.write("a.jsonl", jsonl_of(sample_texts(), 250)),
                                        dir_.write("b.txt", sample_texts().back())};
  TokenizeOptions one = options(inputs, "one"), two = options(inputs, "two");
  one.shard_tokens = two.shard_tokens = 100'000;
  two.threads = 2;
  run(one);
  run(two);
  EXPECT_GT(files_of("one").size(), 5u);
  EXPECT_EQ(files_of("one"), files_of("two"));
}

TEST_F(TokenizeTest, CompressionChangesNothing) {
  const std::string text = jsonl_of(sample_texts(), 20), more = jsonl_of({"more", "of it"}, 1);
  run(options({dir_.write("a.jsonl", text + more)}, "plain"));
  run(options({dir_.write("a.jsonl.gz", gzip_of(text) + gzip_of(more))}, "gzip"));
  run(options({dir_.write("a.jsonl.zst", zstd_of(text) + zstd_of(more))}, "zstd"));
  EXPECT_GT(ids_of("plain").size(), 10'000u);
  EXPECT_EQ(ids_of("plain"), ids_of("gzip"));
  EXPECT_EQ(ids_of("plain"), ids_of("zstd"));
}

TEST_F(TokenizeTest, FilesAndLinesAreDocuments) {
  const std::string text = "one line\r\n\nanother\nlast";
  run(options({dir_.write("a.txt", text)}, "file"));
  TokenizeOptions lines = options({dir_.write("b.txt", text)}, "lines");
  lines.documents.lines = true;
  run(lines);
  const auto ends = [&](const char* out) { return std::ranges::count(ids_of(out), kEos); };
  EXPECT_EQ(ends("file"), 1);
  EXPECT_EQ(ends("lines"), 3);
  EXPECT_EQ(json::parse(dir_.read("lines/index.json"))["documents"], 3);
}

// Killed at some shard, then run again: the same bytes, and what was there is not made again.
TEST_F(TokenizeTest, GoesOnWhereItWasKilled) {
  const std::vector<std::string> inputs{
      dir_.write("a.jsonl.gz", gzip_of(jsonl_of(sample_texts(), 40))),
      dir_.write("b.jsonl", jsonl_of(sample_texts(), 120))};
  run(options(inputs, "whole"));
  const pid_t child = fork();
  if (child == 0) {
    run(options(inputs, "killed"));
    _exit(0);
  }
  const auto tenth = dir_.path("killed/shard_00009.bin");
  for (int i = 0; i < 5000 && !std::filesystem::exists(tenth); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  EXPECT_FALSE(std::filesystem::exists(dir_.path("killed/index.json")));
  const auto made = std::filesystem::last_write_time(dir_.path("killed/shard_00002.bin"));
  run(options(inputs, "killed"));
  EXPECT_EQ(std::filesystem::last_write_time(dir_.path("killed/shard_00002.bin")), made);
  EXPECT_EQ(files_of("whole"), files_of("killed"));
}

TEST_F(TokenizeTest, MakesAMissingShardAgain) {
  const std::vector<std::string> inputs{dir_.write("a.jsonl", jsonl_of(sample_texts(), 20))};
  run(options(inputs, "out"));
  const auto before = files_of("out");
  ASSERT_GT(before.size(), 4u);
  std::filesystem::remove(dir_.path("out/shard_00002.bin"));
  std::filesystem::resize_file(dir_.path("out/shard_00003.bin"), 100);
  run(options(inputs, "out"));
  EXPECT_EQ(files_of("out"), before);
}

TEST_F(TokenizeTest, RefusesAFolderOfSomethingElse) {
  const std::string input = dir_.write("a.txt", "some text");
  run(options({input}, "out"));
  TokenizeOptions other = options({input}, "out");
  other.shard_tokens = 7;
  EXPECT_THAT(error_of(other), HasSubstr("shard_tokens 5000, not 7"));
  dir_.write("a.txt", "another text");
  EXPECT_THAT(error_of(options({input}, "out")), HasSubstr("inputs"));
}

TEST_F(TokenizeTest, NamesWhatIsWrongWithTheInput) {
  EXPECT_THAT(error_of(options({dir_.path("none.txt").string()}, "o")), HasSubstr("none.txt"));
  const auto error = [&](const std::string& name, const std::string& contents) {
    return error_of(options({dir_.write(name, contents)}, "o_" + name));
  };
  EXPECT_THAT(error("a.jsonl", "{\"text\": \"a\"}\n{\"tex\": 1}\n"),
              HasSubstr("a.jsonl line 2: no key \"text\""));
  EXPECT_THAT(error("b.jsonl", "{\"text\": 1}"),
              HasSubstr("line 1: \"text\" must be a string, not number"));
  EXPECT_THAT(error("c.jsonl", "\n[]"), HasSubstr("line 2: an object"));
  EXPECT_THAT(error("d.jsonl", "{\"text\": \"\\ud800\"}"), HasSubstr("d.jsonl line 1"));
  EXPECT_THAT(error("e.txt", ""), HasSubstr("no text"));
  const std::string gzip = gzip_of(jsonl_of(sample_texts(), 3)),
                    zstd = zstd_of(jsonl_of(sample_texts(), 3));
  EXPECT_THAT(error("f.jsonl.gz", gzip.substr(0, gzip.size() / 2)),
              HasSubstr("f.jsonl.gz is cut off"));
  EXPECT_THAT(error("g.jsonl.zst", zstd.substr(0, zstd.size() / 2)),
              HasSubstr("g.jsonl.zst is cut off"));
  EXPECT_THAT(error("h.txt.gz", "no gzip"), HasSubstr("damaged gzip"));
  EXPECT_THAT(error("i.txt.zst", "no zstd at all"), HasSubstr("damaged zstd"));
  TokenizeOptions eos = options({dir_.write("j.txt", "a")}, "j");
  eos.eos = "<none>";
  EXPECT_THAT(error_of(eos), HasSubstr("--eos \"<none>\""));
}

}  // namespace
}  // namespace spillway
