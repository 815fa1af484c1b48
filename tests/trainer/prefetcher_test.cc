#include "trainer/prefetcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/synthetic_source.h"

namespace spillway {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Batcher> batcher_over(std::shared_ptr<const TokenSource> source) {
  return std::make_shared<Batcher>(std::move(source),
                                   BatcherOptions{.sequences = 2, .seq_len = 4, .shuffle = true});
}

// Fails, or is slow, from some token on.
class Troubled : public TokenSource {
 public:
  std::atomic<bool> broken = false;
  std::chrono::milliseconds delay{0};
  [[nodiscard]] int64_t size() const override { return 1000; }
  void read(int64_t, std::span<int32_t>) const override {
    std::this_thread::sleep_for(delay);
    if (broken) throw DataError("shard.bin at byte 40: gone");
  }
};

TEST(Prefetcher, GivesTheBatchesOfItsBatcher) {
  const auto batcher = batcher_over(std::make_shared<SyntheticSource>(101, 97, 1));
  Prefetcher prefetcher(batcher, 6);
  Batch expected;
  expected.position = 6;
  for (int i = 0; i < 50; ++i) {
    batcher->fill(expected.position, expected);
    const Batch& batch = prefetcher.next();
    ASSERT_EQ(batch.tokens, expected.tokens);
    ASSERT_EQ(batch.targets, expected.targets);
    ASSERT_EQ(batch.position, expected.position);
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(batch.tokens, expected.tokens);  // still the caller's
  }
}

TEST(Prefetcher, ErrorsComeOutOfNext) {
  const auto source = std::make_shared<Troubled>();
  Prefetcher prefetcher(batcher_over(source), 0);
  (void)prefetcher.next();
  source->broken = true;
  const auto error = [&] {
    return message_of<DataError>([&] {
      for (int i = 0; i < 3; ++i) (void)prefetcher.next();
    });
  };
  EXPECT_THAT(error(), HasSubstr("shard.bin at byte 40"));
  EXPECT_THAT(error(), HasSubstr("shard.bin at byte 40"));
}

TEST(Prefetcher, ReadsWhileTheCallerComputes) {
  const auto source = std::make_shared<Troubled>();
  source->delay = std::chrono::milliseconds(5);  // four reads a batch
  Prefetcher prefetcher(batcher_over(source), 0);
  (void)prefetcher.next();
  EXPECT_GT(prefetcher.wait_seconds(), 0.01);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  (void)prefetcher.next();
  EXPECT_LT(prefetcher.wait_seconds(), 0.01);
}

TEST(Prefetcher, StopsWhereverItIs) {
  const auto batcher = batcher_over(std::make_shared<SyntheticSource>(101, 97, 1));
  for (int taken = 0; taken < 50; ++taken) {
    Prefetcher prefetcher(batcher, 0);
    for (int i = 0; i < taken % 4; ++i) (void)prefetcher.next();
  }
}

}  // namespace
}  // namespace spillway
