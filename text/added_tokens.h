// Added tokens in text: what is between them goes on to the other rules.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/tokenizer_json.h"

namespace spillway {

// A piece of text: an added token, or (id -1) text between them.
struct Piece {
  std::string_view text;
  int32_t id;
};

// Threads may share it.
class AddedTokens {
 public:
  explicit AddedTokens(const std::vector<AddedToken>& tokens);
  // Appends the pieces of `text`: the leftmost token first, the longest of those that begin there.
  void divide(std::string_view text, std::vector<Piece>& pieces) const;

 private:
  [[nodiscard]] const AddedToken* token_at(std::string_view text) const;

  TextMap<AddedToken> tokens_;
  std::array<std::vector<size_t>, 256> lengths_;  // by first byte: of the tokens, longest first
};

}  // namespace spillway
