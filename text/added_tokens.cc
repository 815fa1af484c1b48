#include "text/added_tokens.h"

#include <algorithm>
#include <functional>

#include "text/utf8.h"

namespace spillway {
namespace {

size_t white_space_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.substr(at));
    if (!is_white_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

// Where the white space at the end of `text` begins.
size_t white_space_at_end(std::string_view text) {
  size_t at = text.size();
  while (at > 0) {
    size_t begin = at - 1;
    while ((static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!is_white_space(first_code_point(text.substr(begin)).value)) break;
    at = begin;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    tokens_.insert_or_assign(token.content, token);
    lengths_[static_cast<uint8_t>(token.content[0])].push_back(token.content.size());
  }
  for (std::vector<size_t>& lengths : lengths_) {
    std::ranges::sort(lengths, std::greater());
    lengths.erase(std::ranges::unique(lengths).begin(), lengths.end());
  }
}

const AddedToken* AddedTokens::token_at(std::string_view text) const {
  for (const size_t length : lengths_[static_cast<uint8_t>(text[0])]) {
    if (length > text.size()) continue;
    const auto found = tokens_.find(text.substr(0, length));
    if (found != tokens_.end()) return &found->second;
  }
  return nullptr;
}

void AddedTokens::divide(std::string_view text, std::vector<Piece>& pieces) const {
  if (tokens_.empty()) return pieces.push_back({text, -1});
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = token_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    if (token->lstrip) begin = done + white_space_at_end(text.substr(done, at - done));
    if (token->rstrip) end += white_space_at_start(text.substr(end));
    if (begin > done) pieces.push_back({text.substr(done, begin - done), -1});
    pieces.push_back({text.substr(begin, end - begin), token->id});
    at = done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done), -1});
}

}  // namespace spillway
