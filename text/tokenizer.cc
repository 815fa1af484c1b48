#include "text/tokenizer.h"

#include <fmt/format.h>

#include "program/error.h"
#include "text/normalize.h"
#include "text/utf8.h"

namespace spillway {
namespace {

// Llama 3, GPT-2 and Qwen, Llama 2 and its kin, DeepSeek.
constexpr std::string_view kEndsOfText[] = {"<|end_of_text|>", "<|endoftext|>", "</s>",
                                            "<\xef\xbd\x9c"
                                            "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};

std::vector<AddedToken> chosen(const TokenizerJson& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : parts.added) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (normalized && parts.nfc) tokens.back().content = nfc(token.content);
  }
  return tokens;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerJson parts)
    : added_(parts.added),
      raw_(chosen(parts, false)),
      normalized_(chosen(parts, true)),
      splits_(std::move(parts.splits)),
      tokens_(std::move(parts.tokens)),
      bpe_(std::move(parts.vocabulary), parts.merges, parts.ignore_merges),
      nfc_(parts.nfc),
      template_eos_(parts.eos) {}

std::optional<int32_t> Tokenizer::added_token(std::string_view content) const {
  for (const AddedToken& token : added_) {
    if (token.content == content) return token.id;
  }
  return std::nullopt;
}

std::optional<int32_t> Tokenizer::eos() const {
  if (template_eos_ >= 0) return template_eos_;
  for (const std::string_view name : kEndsOfText) {
    if (const auto id = added_token(name)) return id;
  }
  return std::nullopt;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw DataError(fmt::format("id {} is outside the vocabulary of {}", id, vocab_size()));
    }
    text += tokens_[id];
  }
  return text;
}

void TextEncoder::encode(std::string_view text, std::vector<int32_t>& ids) {
  std::string repaired;
  if (valid_utf8_prefix(text) < text.size()) {
    repaired = text;
    replace_invalid_utf8(repaired);
    text = repaired;
  }
  pieces_.clear();
  tokenizer_.raw_.divide(text, pieces_);
  for (const Piece& piece : pieces_) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
    } else if (tokenizer_.nfc_) {
      encode_between(nfc(piece.text), ids);
    } else {
      encode_between(piece.text, ids);
    }
  }
}

void TextEncoder::encode_between(std::string_view text, std::vector<int32_t>& ids) {
  inner_pieces_.clear();
  tokenizer_.normalized_.divide(text, inner_pieces_);
  for (const Piece& piece : inner_pieces_) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    pretokenize(tokenizer_.splits_, matcher_, piece.text,
                [&](std::string_view word) { bpe_.encode(word, ids); });
  }
}

}  // namespace spillway
