// Tokenizers against Hugging Face's tokenizers library (scripts/golden/tokenizers.py).
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "program/error.h"
#include "tests/text/files.h"
#include "text/utf8.h"

namespace spillway {
namespace {

using nlohmann::json;

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  TextEncoder(tokenizer).encode(text, ids);
  return ids;
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, GivesTheIdsOfHuggingFace) {
  const Tokenizer tokenizer(test_data(std::string("tokenizer_") + GetParam() + ".json"), "golden");
  TextEncoder encoder(tokenizer);
  const json golden =
      json::parse(test_data(std::string("tokenizer_") + GetParam() + "_golden.json"));
  ASSERT_GE(golden.size(), 200u);
  for (int pass = 0; pass < 2; ++pass) {  // the second finds its words in the cache
    for (const json& sample : golden) {
      std::vector<int32_t> ids;
      encoder.encode(sample[0].get<std::string>(), ids);
      EXPECT_EQ(ids, sample[1].get<std::vector<int32_t>>()) << sample[0];
    }
  }
}

TEST_P(TokenizerGolden, DecodesWhatItEncoded) {
  if (GetParam() == std::string("nfc")) GTEST_SKIP() << "a normalizer has no inverse";
  const Tokenizer tokenizer(test_data(std::string("tokenizer_") + GetParam() + ".json"), "golden");
  for (const json& sample :
       json::parse(test_data(std::string("tokenizer_") + GetParam() + "_golden.json"))) {
    const auto text = sample[0].get<std::string>();
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text);
  }
}

TEST_P(TokenizerGolden, TakesAnyBytes) {
  const Tokenizer tokenizer(test_data(std::string("tokenizer_") + GetParam() + ".json"), "golden");
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string text(random() % 200, '\0');
    for (char& byte : text) byte = static_cast<char>(random() % (i % 2 == 0 ? 256 : 0xa0));
    std::string valid = text;
    replace_invalid_utf8(valid);
    const std::vector<int32_t> ids = encode(tokenizer, text);
    EXPECT_EQ(ids, encode(tokenizer, valid));
    if (GetParam() != std::string("nfc")) {
      EXPECT_EQ(tokenizer.decode(ids), valid);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, TokenizerGolden, testing::Values("llama3", "deepseek3", "nfc", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Tokenizer, KnowsItsEnd) {
  const auto eos_of = [](const char* name) {
    const Tokenizer tokenizer(test_data(std::string("tokenizer_") + name + ".json"), name);
    return tokenizer.decode(std::vector<int32_t>{tokenizer.eos().value()});
  };
  EXPECT_EQ(eos_of("llama3"), "<|end_of_text|>");
  EXPECT_EQ(eos_of("nfc"), "<|endoftext|>");
  EXPECT_EQ(eos_of("deepseek3"),
            "<\xef\xbd\x9c"
            "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>");
}

TEST(Tokenizer, LongWordsAndLongRuns) {
  const Tokenizer tokenizer(test_data("tokenizer_llama3.json"), "golden");
  for (const char* unit : {"a", " ", "\n", "the", "\xe4\xb8\x80", "1", "\xff", "!"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    std::string valid = text;
    replace_invalid_utf8(valid);
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), valid) << unit;
  }
}

TEST(Tokenizer, RefusesAnIdOutsideTheVocabulary) {
  const Tokenizer tokenizer(test_data("tokenizer_llama3.json"), "golden");
  EXPECT_THROW((void)tokenizer.decode(std::vector<int32_t>{-1}), DataError);
  EXPECT_THROW((void)tokenizer.decode(std::vector<int32_t>{1504}), DataError);
}

TEST(Utf8, ReplacesWhatPythonReplaces) {
  for (const json& sample : json::parse(test_data("tokenizer_utf8_golden.json"))) {
    const auto hex = sample[0].get<std::string>();
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    replace_invalid_utf8(bytes);
    EXPECT_EQ(bytes, sample[1].get<std::string>()) << hex;
  }
}

TEST(Utf8, CodePointsThereAndBack) {
  for (char32_t c = 0; c < 0x110000; c += 61) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_utf8(c, text);
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    EXPECT_EQ(first_code_point(text).value, c);
    EXPECT_EQ(first_code_point(text).bytes, text.size());
  }
}

}  // namespace
}  // namespace spillway
