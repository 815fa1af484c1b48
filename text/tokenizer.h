// Text to ids and back, as Hugging Face's tokenizers library does it for byte-level BPE.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/tokenizer_json.h"

namespace spillway {

// What a file says; threads may share it.
class Tokenizer {
 public:
  // Throws ConfigError (text/tokenizer_json.h) with `name`.
  Tokenizer(const std::string& json, const std::string& name)
      : Tokenizer(parse_tokenizer_json(json, name)) {}
  explicit Tokenizer(TokenizerJson parts);

  [[nodiscard]] int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }
  // The added token of that content.
  [[nodiscard]] std::optional<int32_t> added_token(std::string_view content) const;
  // What ends a document: what the template puts behind a text, else an added token with one of the
  // names that published models use.
  [[nodiscard]] std::optional<int32_t> eos() const;
  // The text of `ids`; throws DataError on one that is outside the vocabulary. The inverse of
  // encode where there is no normalizer and no added token takes white space with it.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const;

 private:
  friend class TextEncoder;
  std::vector<AddedToken> added_;
  AddedTokens raw_, normalized_;  // looked for before the normalizer, and after it
  std::vector<Split> splits_;
  std::vector<std::string> tokens_;
  BpeModel bpe_;
  bool nfc_;
  int32_t template_eos_;
};

// Encodes texts one after another: of one thread. The tokenizer must outlive it.
class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer), bpe_(tokenizer.bpe_) {}
  // Appends the ids of `text`. Bytes that are not valid UTF-8 count as U+FFFD (text/utf8.h).
  // Nothing is put before or after.
  void encode(std::string_view text, std::vector<int32_t>& ids);

 private:
  void encode_between(std::string_view text, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  BpeEncoder bpe_;
  Matcher matcher_;
  std::vector<Piece> pieces_, inner_pieces_;
};

}  // namespace spillway
