#include "trainer/batcher.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Token i is i (mod 2^30): shows where a batch comes from.
class Counting : public TokenSource {
 public:
  explicit Counting(int64_t size) : size_(size) {}
  [[nodiscard]] int64_t size() const override { return size_; }
  void read(int64_t begin, std::span<int32_t> out) const override {
    ASSERT_LE(begin + static_cast<int64_t>(out.size()), size_);
    for (int32_t& id : out) id = static_cast<int32_t>(begin++ & 0x3fffffff);
  }

 private:
  int64_t size_;
};

Batcher make(int64_t tokens, BatcherOptions options) {
  return {std::make_shared<Counting>(tokens), std::move(options)};
}

Batch batch_at(const Batcher& batcher, int64_t position) {
  Batch batch;
  batcher.fill(position, batch);
  return batch;
}

// The sequences of `count` batches, by the index that their first token tells.
std::vector<int64_t> sequences(const Batcher& batcher, int64_t position, int64_t count) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) {
    const Batch batch = batch_at(batcher, position);
    for (int64_t row = 0; row < batcher.options().sequences; ++row) {
      result.push_back(batch.tokens[row * batcher.options().seq_len] / batcher.options().seq_len);
    }
    position = batch.position;
  }
  return result;
}

TEST(Batcher, TargetsAreTheNextTokens) {
  const Batch batch = batch_at(make(13, {.sequences = 2, .seq_len = 3}), 2);
  EXPECT_THAT(batch.tokens, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(batch.targets, ElementsAre(7, 8, 9, 10, 11, 12));
  EXPECT_EQ(batch.valid_targets, 6);
  EXPECT_EQ(batch.position, 4);
}

TEST(Batcher, TheLastTargetNeedsAToken) {
  EXPECT_EQ(make(13, {.sequences = 1, .seq_len = 3}).sequences_per_epoch(), 4);
  EXPECT_EQ(make(12, {.sequences = 1, .seq_len = 3}).sequences_per_epoch(), 3);
}

TEST(Batcher, EveryEpochHasEachSequenceOnce) {
  for (const bool shuffle : {false, true}) {
    // 7 sequences in batches of 3: the third batch lies across the border.
    const Batcher batcher = make(7 * 4 + 1, {.sequences = 3, .seq_len = 4, .shuffle = shuffle});
    const std::vector<int64_t> seen = sequences(batcher, 0, 7);
    std::vector<std::vector<int64_t>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      epochs.emplace_back(seen.begin() + epoch * 7, seen.begin() + epoch * 7 + 7);
      std::vector<int64_t> sorted = epochs.back();
      std::ranges::sort(sorted);
      EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5, 6));
    }
    EXPECT_EQ(epochs[0] != epochs[1] && epochs[1] != epochs[2], shuffle);
  }
}

TEST(Batcher, SeedsGiveOrders) {
  const BatcherOptions options{.sequences = 10, .seq_len = 1, .shuffle = true, .seed = 1};
  BatcherOptions other = options;
  other.seed = 2;
  EXPECT_EQ(sequences(make(101, options), 0, 10), sequences(make(101, options), 0, 10));
  EXPECT_NE(sequences(make(101, options), 0, 10), sequences(make(101, other), 0, 10));
}

// The global batch is what counts: cut into micro-batches or not, the rows are the same, and a run
// that resumes at a saved position goes on as if it had not stopped.
TEST(Batcher, DependsOnThePositionAlone) {
  const BatcherOptions options{.sequences = 4, .seq_len = 2, .shuffle = true, .seed = 3};
  BatcherOptions halves = options;
  halves.sequences = 2;
  EXPECT_EQ(sequences(make(23, options), 0, 10), sequences(make(23, halves), 0, 20));

  const Batcher batcher = make(23, options);
  std::vector<int64_t> whole = sequences(batcher, 0, 12);
  const std::vector<int64_t> resumed = sequences(make(23, options), 4 * 7, 5);
  whole.erase(whole.begin(), whole.begin() + 4 * 7);
  EXPECT_EQ(whole, resumed);
}

TEST(Batcher, OnePassPadsWithIgnoredTargets) {
  const Batcher batcher = make(11, {.sequences = 2, .seq_len = 3, .one_pass = true});
  const Batch last = batch_at(batcher, 2);
  EXPECT_THAT(last.tokens, ElementsAre(6, 7, 8, 0, 0, 0));
  EXPECT_THAT(last.targets, ElementsAre(7, 8, 9, -100, -100, -100));
  EXPECT_EQ(last.valid_targets, 3);
  EXPECT_EQ(batch_at(batcher, 4).valid_targets, 0);
}

TEST(Batcher, ShorterThanOneBatch) {
  const auto error = [](int64_t tokens, BatcherOptions options) {
    options.name = "a.txt";
    return message_of<DataError>([&] { (void)make(tokens, options); });
  };
  EXPECT_EQ(error(65, {.sequences = 2, .seq_len = 32}), "");
  EXPECT_EQ(error(64, {.sequences = 2, .seq_len = 32}),
            "data error: a.txt holds 64 tokens, which make 1 sequences of seq_len 32; one batch "
            "(micro_batch x accumulation) needs 2 sequences, 65 tokens");
  EXPECT_THAT(error(32, {.sequences = 2, .seq_len = 32, .one_pass = true}),
              HasSubstr("evaluation needs 1 sequences, 33 tokens"));
  EXPECT_EQ(error(33, {.sequences = 2, .seq_len = 32, .one_pass = true}), "");
  EXPECT_THAT(error(0, {.sequences = 1, .seq_len = 32}), HasSubstr("holds 0 tokens"));
}

TEST(Batcher, PositionsPast32Bits) {
  const int64_t tokens = (int64_t{1} << 40) + 1;
  const Batcher batcher = make(tokens, {.sequences = 1, .seq_len = 4});
  EXPECT_EQ(batcher.sequences_per_epoch(), int64_t{1} << 38);
  const int64_t far = (int64_t{5} << 38) + (int64_t{1} << 33) + 7;  // in epoch 5
  EXPECT_EQ(batch_at(batcher, far).tokens[0], (((int64_t{1} << 33) + 7) * 4) & 0x3fffffff);
  const Batcher shuffled = make(tokens, {.sequences = 1, .seq_len = 4, .shuffle = true});
  EXPECT_EQ(batch_at(shuffled, far).position, far + 1);
}

TEST(Batcher, RefillsWithoutAllocating) {
  const Batcher batcher = make(101, {.sequences = 2, .seq_len = 8});
  Batch batch = batch_at(batcher, 0);
  const int32_t* tokens = batch.tokens.data();
  batcher.fill(2, batch);
  EXPECT_EQ(batch.tokens.data(), tokens);
}

}  // namespace
}  // namespace spillway
