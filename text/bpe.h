// Byte-level byte-pair encoding (Sennrich et al. 2016, over bytes as GPT-2).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace spillway {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// A merge joins the tokens `left` and `right`, neighbours, into `result`; the one that is listed
// first goes first.
struct Merge {
  int32_t left, right, result;
};

// The vocabulary and the merges; threads may share it.
class BpeModel {
 public:
  // `vocabulary`: bytes to id, with every single byte. `ignore_merges`: a word that is in it is one
  // token, whatever merges say.
  BpeModel(TextMap<int32_t> vocabulary, const std::vector<Merge>& merges, bool ignore_merges);

  struct Rule {
    int32_t rank, result;
  };
  // The merge of two neighbours; kNoRank where there is none.
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
  [[nodiscard]] Rule merge_of(int32_t left, int32_t right) const;
  [[nodiscard]] int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  // The id of a word that is taken whole; -1 where it is not.
  [[nodiscard]] int32_t whole_word(std::string_view word) const;

 private:
  struct Slot {
    uint64_t pair = ~uint64_t{0};
    Rule rule{kNoRank, -1};
  };
  [[nodiscard]] size_t slot_of(uint64_t pair) const;

  TextMap<int32_t> vocabulary_;
  int shift_ = 0;            // the hash's upper bits are the slot
  std::vector<Slot> slots_;  // a power of two, at most half full; a pair is at its hash or behind
  std::array<int32_t, 256> byte_tokens_;
  bool ignore_merges_;
};

// Encodes words one after another: of one thread.
class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeModel& model);
  void encode(std::string_view word, std::vector<int32_t>& ids);  // appends

 private:
  // A word that was seen lately, in one cache line. Words that share a place displace each other,
  // so the memory is bounded.
  struct alignas(64) Seen {
    uint8_t bytes = 0, count = 0;
    std::array<char, 30> word;
    std::array<int32_t, 8> ids;
  };
  struct Symbol {
    int32_t id, previous, next;  // places of the neighbours, -1: none; id -1: merged away
  };
  struct Candidate {
    int32_t rank, place, result;
  };
  void merge(std::string_view word, std::vector<int32_t>& ids);
  void merge_short(std::string_view word, std::vector<int32_t>& ids);
  void merge_long(std::string_view word, std::vector<int32_t>& ids);
  void consider(int32_t place);
  void apply(const Candidate& candidate);

  const BpeModel& model_;
  std::vector<Seen> seen_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace spillway
