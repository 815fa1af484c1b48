// `spillway tokenize`: text files to token shards.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "trainer/documents.h"

namespace spillway {

struct TokenizeOptions {
  std::string tokenizer;            // a tokenizer.json
  std::vector<std::string> inputs;  // trainer/documents.h
  std::string out;                  // the folder of the shards, made where it is missing
  DocumentOptions documents;
  int64_t shard_tokens = 100'000'000;
  int threads = 0;  // 0: the cores that are there
  // Written behind every document that is not empty. "": what the tokenizer says (Tokenizer::eos).
  std::string eos;
  bool no_eos = false;
};

// Writes shard_00000.bin and so on (trainer/shard_source.h), each with `shard_tokens` ids but the
// last, and then index.json (trainer/token_index.h). The bytes do not depend on the number of
// threads. A run that was cut short goes on behind the last shard that it finished. Progress goes
// to `console`. Throws ConfigError and DataError.
void tokenize(const TokenizeOptions& options, std::FILE* console);

}  // namespace spillway
