#include "trainer/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::string with_length(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string open_error(const std::string& contents) {
  const TempDir dir;
  const std::string path = dir.write("a.safetensors", contents);
  return message_of<DataError>([&] { const SafetensorsFile file(path); });
}

TEST(Safetensors, RoundTrips) {
  const TempDir dir;
  const std::string path = dir.path("a.safetensors").string();
  const std::vector<float> f32 = {1.5f, -2, 3};
  const std::vector<uint16_t> bf16 = {0x3f80};
  const std::vector<uint8_t> u8 = {1, 2, 3};
  const std::vector<int64_t> i64 = {-7};
  write_safetensors(path,
                    {{"b", SafeDType::kBF16, {1, 1}, bytes_of(bf16)},
                     {"u", SafeDType::kU8, {3}, bytes_of(u8)},
                     {"model.w", SafeDType::kF32, {3, 1}, bytes_of(f32)},
                     {"empty", SafeDType::kF8E4M3, {0, 4}, {}},
                     {"scalar", SafeDType::kI64, {}, bytes_of(i64)}},
                    {{"format", "pt"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafeTensor& w = file.at("model.w");
  EXPECT_EQ(w.dtype, SafeDType::kF32);
  EXPECT_THAT(w.shape, ElementsAre(3, 1));
  ASSERT_EQ(w.bytes.size(), 12u);
  EXPECT_EQ(std::memcmp(w.bytes.data(), f32.data(), 12), 0);
  EXPECT_EQ(std::memcmp(file.at("b").bytes.data(), bf16.data(), 2), 0);
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(file.at("empty").bytes.size(), 0u);
  for (const SafeTensor& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % size_of(tensor.dtype), 0u);
  }
  EXPECT_EQ(file.find("model.v"), nullptr);
  EXPECT_THAT(message_of<DataError>([&] { (void)file.at("model.v"); }),
              HasSubstr("has no tensor model.v, did you mean model.w?"));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(Safetensors, AFileWithoutTensors) {
  const TempDir dir;
  const std::string path = dir.path("a.safetensors").string();
  write_safetensors(path, {});
  EXPECT_TRUE(SafetensorsFile(path).tensors().empty());
}

TEST(Safetensors, TheWriterRefusesContradictions) {
  const TempDir dir;
  const std::vector<float> x = {1};
  const auto error = [&](std::vector<SafeTensor> tensors) {
    return message_of<VerifyError>(
        [&] { write_safetensors(dir.path("a").string(), std::move(tensors)); });
  };
  EXPECT_THAT(error({{"x", SafeDType::kF32, {2}, bytes_of(x)}}), HasSubstr("ask for 8"));
  EXPECT_THAT(
      error({{"x", SafeDType::kF32, {1}, bytes_of(x)}, {"x", SafeDType::kF32, {1}, bytes_of(x)}}),
      HasSubstr("two tensors are named x"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Safetensors, HeadersThatLie) {
  const std::string whole = R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_EQ(open_error(with_length(whole, "abcd")), "");
  EXPECT_THAT(open_error(""), HasSubstr("is empty"));
  EXPECT_THAT(open_error("abc"), HasSubstr("it has 3 bytes"));
  EXPECT_THAT(open_error(std::string(8, '\xff')), HasSubstr("18446744073709551615"));
  EXPECT_THAT(open_error(with_length(whole, "abcd").substr(0, 30)), HasSubstr("truncated"));
  EXPECT_THAT(open_error(with_length(whole, "abc")), HasSubstr("end at 4; the file has 3 bytes"));
  EXPECT_THAT(open_error(with_length(whole, "abcde")), HasSubstr("only the first 4"));
  EXPECT_THAT(open_error(with_length("{", "")), HasSubstr("header: "));
  EXPECT_THAT(open_error(with_length("[1]", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(open_error(with_length(std::string(100'000, '['), "")), HasSubstr("too deeply"));
}

TEST(Safetensors, EntriesThatLie) {
  const auto error = [](const std::string& entry, const std::string& data = "abcd") {
    return open_error(with_length(fmt::format(R"({{"x":{}}})", entry), data));
  };
  EXPECT_THAT(error("3"), HasSubstr("tensor x: must be an object"));
  EXPECT_THAT(error(R"({"shape":[4],"data_offsets":[0,4]})"), HasSubstr("has no dtype"));
  EXPECT_THAT(error(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})"),
              HasSubstr("dtype \"F31\" is none of: F32, BF16, F16, I32, I64, U8, F8_E4M3"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), HasSubstr("holds -4"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"),
              HasSubstr("holds 4.0"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), HasSubstr("a list"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"),
              HasSubstr("[begin, end]"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), HasSubstr("[begin, end]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[0,4]})"),
              HasSubstr("F32 [4] does not take the 4 bytes"));
  // 2^32 x 2^32 bytes wrap to 0, and so does the end of 2^64.
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
              HasSubstr("does not take the 0 bytes"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]})"),
              HasSubstr("truncated?"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]},"x":3)"),
              HasSubstr("key x stands twice"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]})"),
              HasSubstr("key shape stands twice"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]},"__metadata__":[1])"),
              HasSubstr("__metadata__ must map words to words"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]},"__metadata__":{"a":1})"),
              HasSubstr("__metadata__ must map words to words"));
}

TEST(Safetensors, TensorsCoverTheDataOnce) {
  const auto error = [](int begin, int end) {
    return open_error(
        with_length(fmt::format(R"({{"x":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                                R"("y":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                end - begin, begin, end),
                    "abcdefgh"));
  };
  EXPECT_EQ(error(4, 8), "");
  EXPECT_THAT(error(2, 8), HasSubstr("tensor y: begins at byte 2 of the data, before"));
  EXPECT_THAT(error(5, 8), HasSubstr("tensor y: begins at byte 5 of the data, after"));
  EXPECT_THAT(error(4, 7), HasSubstr("only the first 7"));
}

// Damaged in any byte, a file opens or is refused; it never crashes.
TEST(Safetensors, DamagedFilesNeverCrash) {
  const TempDir dir;
  const std::string path = dir.path("a.safetensors").string();
  const std::vector<float> x(16);
  write_safetensors(path, {{"model.x", SafeDType::kF32, {4, 4}, bytes_of(x)},
                           {"model.y", SafeDType::kF32, {1}, bytes_of(x).first(4)}});
  const std::string whole = dir.read("a.safetensors");
  constexpr std::string_view kBytes = "0123456789{}[],:\"-eE\\\xff";
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 1 + i % 3; ++j) {
      damaged[random() % 200] = kBytes[random() % kBytes.size()];
    }
    if (i % 5 == 0) damaged.resize(random() % damaged.size());
    dir.write("b.safetensors", damaged);
    try {
      const SafetensorsFile file(dir.path("b.safetensors").string());
      size_t total = 0;
      for (const SafeTensor& tensor : file.tensors()) total += tensor.bytes.size();
      EXPECT_LE(total, damaged.size());
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace spillway
