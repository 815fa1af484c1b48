// tokenizer.json files that are malformed, or ask for what is not done, are refused by name.
#include "text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "program/error.h"
#include "tests/text/files.h"
#include "tests/trainer/temp_dir.h"
#include "text/regex.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { (void)parse_tokenizer_json(text, "t.json"); });
}

std::string refusal_of(const std::function<void(json&)>& change) {
  static const json good = json::parse(test_data("tokenizer_llama3.json"));
  json changed = good;
  change(changed);
  return refusal(changed.dump());
}

TEST(TokenizerJson, TakesBothFormsOfMerges) {
  json file = json::parse(test_data("tokenizer_llama3.json"));
  const TokenizerJson pairs = parse_tokenizer_json(file.dump(), "t.json");
  ASSERT_TRUE(file["model"]["merges"][0].is_array());
  for (json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const TokenizerJson strings = parse_tokenizer_json(file.dump(), "t.json");
  ASSERT_EQ(pairs.merges.size(), strings.merges.size());
  for (size_t i = 0; i < pairs.merges.size(); ++i) {
    EXPECT_EQ(pairs.merges[i].result, strings.merges[i].result);
  }
}

TEST(TokenizerJson, NamesPathAndValue) {
  const struct {
    const char* names;
    std::function<void(json&)> change;
  } cases[] = {
      {"model.type: \"Unigram\" must be \"BPE\"", [](json& f) { f["model"]["type"] = "Unigram"; }},
      {"model.byte_fallback: true must be false", [](json& f) { f["model"]["byte_fallback"] = true; }},
      {"model.dropout: 0.1 must be null", [](json& f) { f["model"]["dropout"] = 0.1; }},
      {"model: null must be an object", [](json& f) { f["model"] = nullptr; }},
      {"model.vocab: [] must be an object", [](json& f) { f["model"]["vocab"] = json::array(); }},
      {"0x61 is missing", [](json& f) { f["model"]["vocab"].erase("a"); }},
      {"model.vocab.a: -1 must be a whole number", [](json& f) { f["model"]["vocab"]["a"] = -1; }},
      {"model.vocab.a: 1e+99", [](json& f) { f["model"]["vocab"]["a"] = 1e99; }},
      {"an id of its own", [](json& f) { f["model"]["vocab"]["b"] = f["model"]["vocab"]["a"]; }},
      {"model.merges[0]: [\"a\",\"zzzz\"]", [](json& f) { f["model"]["merges"][0] = {"a", "zzzz"}; }},
      {"model.merges[1]: \"a b c\"", [](json& f) { f["model"]["merges"][1] = "a b c"; }},
      {"model.merges[2]: 7 must be a string", [](json& f) { f["model"]["merges"][2] = 7; }},
      {"normalizer.type: \"Lowercase\"", [](json& f) { f["normalizer"] = {{"type", "Lowercase"}}; }},
      {"pre_tokenizer.pretokenizers[1].add_prefix_space: true",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }},
      {"pre_tokenizer.pretokenizers[0].behavior: \"MergedWithNext\"",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "MergedWithNext"; }},
      {"pre_tokenizer.pretokenizers[0].pattern.Regex: \"(a\"",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }},
      {"pre_tokenizer: ", [](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); }},
      {"added_tokens[0].id: 0 must be an id of its own", [](json& f) { f["added_tokens"][0]["id"] = 0; }},
      {"added_tokens[0].single_word: true", [](json& f) { f["added_tokens"][0]["single_word"] = true; }},
      {"added_tokens[1].content: null", [](json& f) { f["added_tokens"][1].erase("content"); }},
      {"truncation: {", [](json& f) { f["truncation"] = {{"max_length", 8}}; }},
      {"decoder.type: \"WordPiece\"", [](json& f) { f["decoder"] = {{"type", "WordPiece"}}; }},
      {"post_processor.type: \"RobertaProcessing\"",
       [](json& f) { f["post_processor"] = {{"type", "RobertaProcessing"}}; }},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(refusal_of(c.change), AllOf(HasSubstr("t.json"), HasSubstr(c.names)));
  }
}

TEST(TokenizerJson, RefusesWhatIsNoSuchFile) {
  EXPECT_THAT(refusal(""), HasSubstr("t.json"));
  EXPECT_THAT(refusal("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal("{\"model\": \xff}"), HasSubstr("t.json"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

// A damaged file is refused or read, and nothing else.
TEST(TokenizerJson, SurvivesDamage) {
  const std::string good = test_data("tokenizer_deepseek3.json");
  int refused = 0;
  for (size_t i = 0; i < 200; ++i) {
    std::string text = good;
    text[i * 7919 % text.size()] = "\"[{0,}\\"[i % 7];
    refused += refusal(text).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 50);
}

TEST(Regex, TranslatesWhatReadsDifferently) {
  EXPECT_EQ(pcre2_pattern(R"(\s[^\S\p{L}]\p{Han}\P{N}\\s)", false),
            R"(\p{White_Space}[^\P{White_Space}\p{L}]\p{sc:Han}[^\p{N}]\\s)");
}

TEST(Regex, RefusesWhatTheTwoReadDifferently) {
  for (const char* pattern : {R"(\w)", R"(\h)", R"([a&&b])", R"([[:alpha:]])", R"(a{1,2}+)", R"((?m:a))",
                              R"((*UTF)a)", R"(\p{NoScript})", R"(\pL)", R"(\)", R"([a)", R"(\K)", R"((a)\1)"}) {
    EXPECT_THROW(Regex(pattern, false), ConfigError) << pattern;
  }
}

}  // namespace
}  // namespace spillway
