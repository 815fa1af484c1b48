// The cpu kernels of a vocabulary in parts against the f64 reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/device/op_case.h"

namespace spillway {
namespace {

using enum OpKind;
constexpr DType kFloats[] = {DType::kF32, DType::kBF16};
constexpr DType kF32 = DType::kF32, kI32 = DType::kI32;

// Columns of a part, and which token is the first; the vocabulary ends at `end`.
struct PartCase {
  int64_t rows, width, begin, end;
  [[nodiscard]] Attrs attrs() const { return {{Attr::kBegin, begin}, {Attr::kEnd, end}}; }
};

// First, middle, last with padding, all padding but one column; more than one block of columns.
constexpr PartCase kParts[] = {
    {17, 33, 0, 97}, {255, 33, 33, 97}, {17, 33, 66, 97}, {3, 40, 96, 97}, {5, 2500, 1000, 3400},
};

class CpuVocabOp : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "kernels have one thread under this sanitizer";
#endif
  }
};

TEST_F(CpuVocabOp, EmbeddingOfAPart) {
  uint32_t seed = 1;
  for (DType dtype : kFloats) {
    for (int64_t begin : {0, 20, 49, 60}) {
      for (int64_t rows : {1, 17, 257}) {
        Random random(seed++);
        const Array tokens = random.integers({rows}, 0, 60);
        OpCase test{.kind = kEmbedding, .attrs = {{Attr::kBegin, begin}}};
        test.add_input(tokens, kI32);
        test.add_input(random.normal({20, 96}), dtype);
        test.out_types = {dtype};
        check(test);
        test = {.kind = kEmbeddingBwd, .attrs = {{Attr::kBegin, begin}, {Attr::kEnd, 20}}};
        test.add_input(tokens, kI32);
        test.add_input(random.normal({rows, 320}), dtype);
        test.out_types = {dtype};
        check(test);
      }
    }
  }
}

OpCase stats_case(const PartCase& part, Random& random) {
  OpCase test{.kind = kVocabStats, .attrs = part.attrs()};
  test.add_input(random.normal({part.rows, part.width}), kF32);
  test.add_input(random.integers({part.rows}, -1, part.end), kI32);
  test.in[1].values[0] = static_cast<double>(part.begin);
  test.out_types = {kF32};
  return test;
}

TEST_F(CpuVocabOp, VocabStats) {
  Random random(1);
  for (const PartCase& part : kParts) check(stats_case(part, random));
}

TEST_F(CpuVocabOp, StatsOfNoColumns) {
  Random random(1);
  OpCase test = stats_case({5, 33, 99, 97}, random);
  const Array stats = run_on_cpu(test, {Array({5, 2})}, false, 2).out[0];
  for (int64_t t = 0; t < 5; ++t) {
    EXPECT_EQ(stats.at(t, 0), std::numeric_limits<float>::lowest());
    EXPECT_EQ(stats.at(t, 1), 0);
  }
}

Array scalars() {
  Array values({kStepScalarCount});
  values.values[kInverseValidTokens] = 1.0 / 64;
  return values;
}

TEST_F(CpuVocabOp, CrossEntropyBwdOfAPart) {
  Random random(1);
  for (const PartCase& part : kParts) {
    for (DType dtype : kFloats) {
      const OpCase stats = stats_case(part, random);
      OpCase test{.kind = kCrossEntropyBwd, .attrs = part.attrs()};
      test.attrs.set(Attr::kScale, 0.3);
      test.add_input(stats.in[0], dtype);
      test.add_input(random.normal({part.rows}), kF32);
      for (double& lse : test.in[1].values) lse += 8;
      test.add_input(stats.in[1], kI32);
      test.add_input(scalars(), kF32);
      test.out_types = {dtype};
      check(test);
      const Array d_logits = run_on_cpu(test, {test.in[0]}, false, 2).out[0];
      for (int64_t t = 0; t < part.rows; ++t) {
        for (int64_t i = part.end - part.begin; i < part.width; ++i) {
          EXPECT_EQ(d_logits.at(t, i), 0);
        }
      }
    }
  }
}

// Stats of `parts` parts; in those from `full` on there is no column.
OpCase loss_case(int64_t parts, int64_t full, int64_t rows, Random& random) {
  OpCase test{.kind = kVocabLoss, .attrs = {{Attr::kScale, 0.3}}};
  Array stats = random.normal({parts * rows, 2});
  const Array targets = random.integers({rows}, -1, full);  // which part has the target
  for (int64_t row = 0; row < parts * rows; ++row) {
    if (static_cast<double>(row / rows) != targets.values[row % rows]) stats.at(row, 1) = 0;
    stats.at(row, 0) = row / rows < full ? stats.at(row, 0) * 4 : std::numeric_limits<float>::lowest();
  }
  test.add_input(stats, kF32);
  test.add_input(targets, kI32);
  test.add_input(scalars(), kF32);
  test.out_types = {kF32, kF32};
  return test;
}

TEST_F(CpuVocabOp, VocabLoss) {
  Random random(1);
  for (int64_t rows : {1, 17, 255}) {
    check(loss_case(1, 1, rows, random));
    check(loss_case(4, 4, rows, random));
    check(loss_case(8, 3, rows, random));
  }
}

TEST_F(CpuVocabOp, LossKeepsNaN) {
  Random random(1);
  OpCase test = loss_case(4, 2, 3, random);
  test.in[0].at(4, 0) = NAN;  // part 1, row 1
  const OpRun run = run_on_cpu(test, {Array({1}), Array({3})}, false, 1);
  EXPECT_TRUE(std::isnan(run.out[1].values[1]));
  EXPECT_TRUE(std::isfinite(run.out[1].values[0]));
}

// One part that is the whole vocabulary: the same bits as cross_entropy, and its gradient.
TEST_F(CpuVocabOp, OnePartIsCrossEntropy) {
  Random random(1);
  const int64_t T = 70, V = 1500;
  OpCase whole{.kind = kCrossEntropy};
  whole.add_input(random.normal({T, V}), kF32);
  whole.add_input(random.integers({T}, -1, V), kI32);
  whole.add_input(scalars(), kF32);
  whole.out_types = {kF32, kF32};
  const Arrays outputs = {Array({1}), Array({T})};
  const OpRun expected = run_on_cpu(whole, outputs, false, 2);

  OpCase stats{.kind = kVocabStats, .attrs = {{Attr::kBegin, 0}, {Attr::kEnd, V}}};
  stats.add_input(whole.in[0], kF32);
  stats.add_input(whole.in[1], kI32);
  stats.out_types = {kF32};
  OpCase loss{.kind = kVocabLoss};
  loss.add_input(run_on_cpu(stats, {Array({T, 2})}, false, 2).out[0], kF32);
  loss.add_input(whole.in[1], kI32);
  loss.add_input(scalars(), kF32);
  loss.out_types = {kF32, kF32};
  EXPECT_EQ(run_on_cpu(loss, outputs, false, 2).bytes, expected.bytes);
}

}  // namespace
}  // namespace spillway
