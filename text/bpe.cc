#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace spillway {
namespace {

constexpr int kSeenBits = 16;      // 4 MiB a thread
constexpr size_t kShortWord = 32;  // bytes up to which looking at every pair is quicker than a heap
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio (Knuth, 6.4)

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// The heap's order, and so its top is the candidate that goes first.
constexpr auto later = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
};

}  // namespace

BpeModel::BpeModel(TextMap<int32_t> vocabulary, const std::vector<Merge>& merges,
                   bool ignore_merges)
    : vocabulary_(std::move(vocabulary)), ignore_merges_(ignore_merges) {
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = vocabulary_.at(std::string(1, static_cast<char>(byte)));
  }
  slots_.resize(std::bit_ceil(2 * merges.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    slots_[slot_of(pair)] = {pair, {static_cast<int32_t>(rank), merges[rank].result}};
  }
}

size_t BpeModel::slot_of(uint64_t pair) const {
  size_t slot = (pair * kGolden) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].rule.rank != kNoRank) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

BpeModel::Rule BpeModel::merge_of(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].rule;
}

int32_t BpeModel::whole_word(std::string_view word) const {
  if (!ignore_merges_) return -1;
  const auto found = vocabulary_.find(word);
  return found == vocabulary_.end() ? -1 : found->second;
}

BpeEncoder::BpeEncoder(const BpeModel& model) : model_(model), seen_(size_t{1} << kSeenBits) {}

void BpeEncoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() == 1) return ids.push_back(model_.byte_token(static_cast<uint8_t>(word[0])));
  if (word.size() > std::tuple_size_v<decltype(Seen::word)>) return merge(word, ids);
  Seen& seen = seen_[TextHash()(word) >> (64 - kSeenBits)];
  if (std::string_view(seen.word.data(), seen.bytes) == word) {
    ids.insert(ids.end(), seen.ids.begin(), seen.ids.begin() + seen.count);
    return;
  }
  const size_t before = ids.size();
  merge(word, ids);
  const size_t count = ids.size() - before;
  if (count > seen.ids.size()) return;
  seen.bytes = static_cast<uint8_t>(word.size());
  seen.count = static_cast<uint8_t>(count);
  std::ranges::copy(word, seen.word.begin());
  std::copy_n(ids.end() - static_cast<std::ptrdiff_t>(count), count, seen.ids.begin());
}

// Merges go by rank, lowest first, and leftmost among equals.
void BpeEncoder::merge(std::string_view word, std::vector<int32_t>& ids) {
  if (const int32_t whole = model_.whole_word(word); whole >= 0) return ids.push_back(whole);
  word.size() <= kShortWord ? merge_short(word, ids) : merge_long(word, ids);
}

void BpeEncoder::merge_short(std::string_view word, std::vector<int32_t>& ids) {
  std::array<int32_t, kShortWord> tokens, ranks,
      results;  // [i]: of the pair that begins at token i
  const auto look_up = [&](size_t i) {
    const BpeModel::Rule rule = model_.merge_of(tokens[i], tokens[i + 1]);
    ranks[i] = rule.rank;
    results[i] = rule.result;
  };
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) tokens[i] = model_.byte_token(static_cast<uint8_t>(word[i]));
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const size_t i = std::min_element(ranks.begin(), ranks.begin() + (count - 1)) - ranks.begin();
    if (ranks[i] == BpeModel::kNoRank) break;
    tokens[i] = results[i];
    for (size_t j = i + 1; j + 1 < count; ++j) {
      tokens[j] = tokens[j + 1];
      ranks[j] = ranks[j + 1];
      results[j] = results[j + 1];
    }
    --count;
    if (i + 1 < count) look_up(i);
    if (i > 0) look_up(i - 1);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

// A heap of pairs. One whose symbols have changed since is dropped when it comes up: a symbol only
// grows, so what the changed pair would make is another token.
void BpeEncoder::merge_long(std::string_view word, std::vector<int32_t>& ids) {
  const auto count = static_cast<int32_t>(word.size());
  symbols_.resize(word.size());
  for (int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(word[static_cast<size_t>(i)]);
    symbols_[i] = {model_.byte_token(byte), i - 1, i + 1 < count ? i + 1 : -1};
  }
  heap_.clear();
  for (int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    apply(candidate);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[i].next) ids.push_back(symbols_[i].id);
}

// The pair that begins at `place`, when a merge joins it.
void BpeEncoder::consider(int32_t place) {
  if (place < 0 || symbols_[place].next < 0) return;
  const BpeModel::Rule rule =
      model_.merge_of(symbols_[place].id, symbols_[symbols_[place].next].id);
  if (rule.rank == BpeModel::kNoRank) return;
  heap_.push_back({rule.rank, place, rule.result});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void BpeEncoder::apply(const Candidate& candidate) {
  Symbol& left = symbols_[candidate.place];
  if (left.id < 0 || left.next < 0) return;
  Symbol& right = symbols_[left.next];
  if (model_.merge_of(left.id, right.id).result != candidate.result) return;
  left.id = candidate.result;
  left.next = right.next;
  right.id = -1;
  if (left.next >= 0) symbols_[left.next].previous = candidate.place;
  consider(left.previous);
  consider(candidate.place);
}

}  // namespace spillway
