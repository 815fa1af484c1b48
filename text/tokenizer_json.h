// A tokenizer as Hugging Face's tokenizer.json describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/bpe.h"
#include "text/pretokenize.h"

namespace spillway {

// A token that is found in text before any other rule.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool lstrip = false, rstrip = false;  // takes the white space on that side with it
  bool normalized = false;              // is looked for in normalized text
};

struct TokenizerJson {
  TextMap<int32_t> vocabulary;  // bytes (not in the byte-level alphabet) to id
  std::vector<Merge> merges;
  bool ignore_merges = false;
  std::vector<AddedToken> added;
  bool nfc = false;
  std::vector<Split> splits;
  // By id; "" where the file has none. Added tokens are as written, others bytes.
  std::vector<std::string> tokens;
  // What the post processor's template puts before and after one text; -1: nothing.
  int32_t bos = -1, eos = -1;
};

// Reads byte-level BPE: what Llama 3, DeepSeek, Qwen and GPT-2 use. Throws ConfigError with `name`,
// the JSON path and the value for what is malformed and for what is asked for but not done here.
[[nodiscard]] TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& name);

}  // namespace spillway
