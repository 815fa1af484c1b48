// Every cpu kernel against the f64 reference, over shapes with tails, both float types,
// accumulation, and one to three threads.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/device/op_case.h"

namespace spillway {
namespace {

using enum OpKind;
constexpr DType kFloats[] = {DType::kF32, DType::kBF16};
constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32;

// Rows x width of the row-wise ops.
template <class F>
void for_each_shape(const F& f) {
  uint32_t seed = 1;
  for (DType dtype : kFloats) {
    for (int64_t rows : {1, 17, 255, 257}) {
      for (int64_t width : {33, 64, 96, 320}) {
        Random random(seed++);
        f(rows, width, dtype, random);
      }
    }
  }
}

Attrs rope_attrs(int64_t heads, int64_t head_dim, int64_t rope_dim, bool interleaved) {
  return {{Attr::kHeads, heads}, {Attr::kHeadDim, head_dim}, {Attr::kRopeDim, rope_dim},
          {Attr::kInterleaved, interleaved}};
}

struct AttentionCase {
  int64_t sequences, seq, heads, kv_heads, head_dim, v_dim;

  [[nodiscard]] Attrs attrs() const {
    return {{Attr::kHeads, heads},       {Attr::kKvHeads, kv_heads},
            {Attr::kHeadDim, head_dim},  {Attr::kVHeadDim, v_dim},
            {Attr::kSeq, seq},           {Attr::kScale, 1 / std::sqrt(head_dim)}};
  }
  [[nodiscard]] OpCase forward(DType dtype, Random& random) const {
    OpCase test{.kind = kAttention, .attrs = attrs()};
    const int64_t rows = sequences * seq;
    test.add_input(random.normal({rows, heads * head_dim}), dtype);
    test.add_input(random.normal({rows, kv_heads * head_dim}), dtype);
    test.add_input(random.normal({rows, kv_heads * v_dim}), dtype);
    test.out_types = {dtype, kF32};
    return test;
  }
  [[nodiscard]] OpCase backward(DType dtype, Random& random) const {
    OpCase test = forward(dtype, random);
    const Arrays results = reference(kAttention, test.in, test.attrs);
    test.kind = kAttentionBwd;
    test.add_input(results[0], dtype);
    test.add_input(results[1], kF32);
    test.add_input(random.normal(results[0].shape), dtype);
    test.out_types = {dtype, dtype, dtype};
    return test;
  }
};

// One query, tails of a block of 64, several blocks, several sequences, groups, and heads whose
// values are narrower than their keys.
constexpr AttentionCase kAttentionCases[] = {
    {1, 1, 1, 1, 8, 8},     {3, 17, 4, 2, 16, 16}, {2, 64, 2, 1, 32, 32},
    {2, 130, 3, 1, 24, 16}, {1, 257, 2, 2, 64, 64}, {1, 65, 1, 1, 192, 128},
    {1, 600, 2, 1, 16, 16},
};

OpCase cross_entropy_case(int64_t rows, int64_t vocabulary, DType dtype, Random& random) {
  OpCase test{.kind = kCrossEntropy};
  Array logits = random.normal({rows, vocabulary});
  for (double& value : logits.values) value *= 4;
  test.add_input(logits, dtype);
  Array targets = random.integers({rows}, -1, vocabulary);
  targets.values[0] = static_cast<double>(vocabulary) - 1;
  test.add_input(targets, kI32);
  test.add_input(random.normal({kStepScalarCount}), kF32);
  test.in.back().values[kInverseValidTokens] = 1.0 / 64;
  test.out_types = {kF32, kF32};
  return test;
}

OpCase adamw_case(int64_t count, std::vector<DType> types, Random& random) {
  OpCase test{.kind = kAdamW,
              .attrs = {{Attr::kBeta1, 0.9}, {Attr::kBeta2, 0.95}, {Attr::kEps, 1e-8},
                        {Attr::kWeightDecay, 0.1}, {Attr::kMaxNorm, 1.0}}};
  test.add_input(random.normal({count}), types[0]);
  Array norm_sq({1}), scalars({kStepScalarCount});
  norm_sq.values = {2.5};
  scalars.values = {1.0 / 64, 3e-2, 1 - std::pow(0.9, 3), 1 - std::pow(0.95, 3)};
  test.add_input(norm_sq, kF32);
  test.add_input(scalars, kF32);
  test.out_types.assign(types.begin() + 1, types.end());
  for (DType dtype : test.out_types) test.before.push_back(random.normal({count}, dtype));
  if (test.before.size() == 4) {  // the copy is the rounded master
    for (int64_t i = 0; i < count; ++i) {
      test.before[0].values[i] = rounded(test.before[1].values[i], test.out_types[0]);
    }
  }
  for (double& v : test.before.back().values) v = rounded(v * v, test.out_types.back());
  return test;
}

class CpuOp : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "kernels have one thread under this sanitizer, and references take minutes";
#endif
  }
};

TEST_F(CpuOp, Embedding) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    OpCase test{.kind = kEmbedding};
    test.add_input(random.integers({rows}, 0, 50), kI32);
    test.add_input(random.normal({50, width}), dtype);
    test.out_types = {dtype};
    check(test);
  });
}

TEST_F(CpuOp, EmbeddingBwd) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    for (DType grad : kFloats) {
      OpCase test{.kind = kEmbeddingBwd, .attrs = {{Attr::kEnd, 50}}};
      test.add_input(random.integers({rows}, 0, 50), kI32);
      test.add_input(random.normal({rows, width}), dtype);
      test.out_types = {grad};
      check(test);
    }
  });
}

TEST_F(CpuOp, RmsNorm) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    OpCase test{.kind = kRmsNorm, .attrs = {{Attr::kEps, 1e-5}}};
    test.add_input(random.normal({rows, width}), dtype);
    test.add_input(random.normal({width}), dtype);
    test.out_types = {dtype, kF32};
    check(test);
  });
}

TEST_F(CpuOp, RmsNormBwd) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    for (DType grad : kFloats) {
      OpCase test{.kind = kRmsNormBwd, .attrs = {{Attr::kEps, 1e-5}}};
      test.add_input(random.normal({rows, width}), dtype);
      test.add_input(random.normal({width}), dtype);
      test.add_input(reference(kRmsNorm, test.in, test.attrs)[1], kF32);
      test.add_input(random.normal({rows, width}), dtype);
      test.out_types = {dtype, grad};
      check(test);
    }
  });
}

TEST_F(CpuOp, Add) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    OpCase test{.kind = kAdd};
    test.add_input(random.normal({rows, width}), dtype);
    test.add_input(random.normal({rows, width}), dtype);
    test.out_types = {dtype};
    check(test);
  });
}

TEST_F(CpuOp, Rope) {
  uint32_t seed = 1;
  for (OpKind kind : {kRope, kRopeBwd}) {
    for (DType dtype : kFloats) {
      for (bool interleaved : {false, true}) {
        for (int64_t rope_dim : {10, 24, 40}) {
          Random random(seed++);
          OpCase test{.kind = kind, .attrs = rope_attrs(3, 40, rope_dim, interleaved)};
          test.add_input(random.normal({51, 120}), dtype);
          test.add_input(random.normal({17, rope_dim / 2, 2}), kF32);
          test.out_types = {dtype};
          check(test);
        }
      }
    }
  }
}

TEST_F(CpuOp, Swiglu) {
  for_each_shape([](int64_t rows, int64_t width, DType dtype, Random& random) {
    OpCase test{.kind = kSwiglu};
    test.add_input(random.normal({rows, width}), dtype);
    test.add_input(random.normal({rows, width}), dtype);
    test.out_types = {dtype};
    check(test);
    test.kind = kSwigluBwd;
    test.add_input(random.normal({rows, width}), dtype);
    test.out_types = {dtype, dtype};
    check(test);
  });
}

TEST_F(CpuOp, Rows) {
  uint32_t seed = 1;
  for (DType dtype : kFloats) {
    Random random(seed++);
    OpCase test{.kind = kRows, .attrs = {{Attr::kBegin, 100}, {Attr::kEnd, 205}}};
    test.add_input(random.normal({257, 96}), dtype);
    test.out_types = {dtype};
    check(test);
  }
}

TEST_F(CpuOp, RowsOfTargets) {
  Random random(1);
  OpCase test{.kind = kRows, .attrs = {{Attr::kBegin, 3}, {Attr::kEnd, 7}}};
  test.add_input(random.integers({17}, 0, 1000), kI32);
  test.out_types = {kI32};
  const Arrays expected = reference(kRows, test.in, test.attrs);
  EXPECT_EQ(run_on_cpu(test, expected, false, 1).out[0].values, expected[0].values);
}

TEST_F(CpuOp, PutRows) {
  for (DType dtype : kFloats) {
    Random random(1);
    OpCase test{.kind = kPutRows, .attrs = {{Attr::kBegin, 100}, {Attr::kEnd, 205}}};
    test.add_input(random.normal({105, 96}), dtype);
    test.out_types = {dtype};
    test.before = {random.normal({257, 96}, dtype)};
    check(test);
  }
}

// Pure f32, pure bf16 with either output, and mixtures that are converted first.
constexpr DType kProductTypes[][3] = {{kF32, kF32, kF32},   {kBF16, kBF16, kBF16},
                                      {kBF16, kBF16, kF32}, {kF32, kBF16, kBF16},
                                      {kBF16, kF32, kF32},  {kF32, kF32, kBF16}};

// [T, N, K]: tails of a tile of rows, one row, several tiles.
constexpr int64_t kProductShapes[][3] = {{1, 33, 64}, {17, 96, 33}, {255, 64, 96}, {257, 33, 320}};

void check_products(int64_t t, int64_t n, int64_t k, const DType (&types)[3], Random& random) {
  const auto product = [&](OpKind kind, Shape a, Shape b) {
    OpCase test{.kind = kind};
    test.add_input(random.normal(std::move(a)), types[0]);
    test.add_input(random.normal(std::move(b)), types[1]);
    test.out_types = {types[2]};
    check(test);
  };
  product(kLinear, {t, k}, {n, k});
  product(kLinearDgrad, {t, n}, {n, k});
  product(kLinearWgrad, {t, n}, {t, k});
}

TEST_F(CpuOp, Linear) {
  uint32_t seed = 1;
  for (const auto& types : kProductTypes) {
    for (const auto& [t, n, k] : kProductShapes) {
      Random random(seed++);
      check_products(t, n, k, types, random);
    }
  }
}

TEST_F(CpuOp, LinearOfManyTilesAndPanels) {
  Random random(1);
  for (int i : {0, 2, 3}) check_products(300, 530, 520, kProductTypes[i], random);
}

TEST_F(CpuOp, Attention) {
  Random random(1);
  for (DType dtype : kFloats) {
    for (const AttentionCase& shape : kAttentionCases) check(shape.forward(dtype, random));
  }
}

TEST_F(CpuOp, AttentionBwd) {
  Random random(1);
  for (DType dtype : kFloats) {
    for (const AttentionCase& shape : kAttentionCases) check(shape.backward(dtype, random));
  }
}

TEST_F(CpuOp, CrossEntropy) {
  Random random(1);
  for (DType dtype : kFloats) {
    for (int64_t rows : {1, 17, 255}) {
      for (int64_t vocabulary : {33, 1024, 2500}) {
        OpCase test = cross_entropy_case(rows, vocabulary, dtype, random);
        check(test);
        const Array lse = reference(kCrossEntropy, test.in, {})[1];
        OpCase backward{.kind = kCrossEntropyBwd, .in = {test.in[0]}, .in_types = {dtype}};
        backward.add_input(lse, kF32);
        backward.add_input(test.in[1], kI32);
        backward.add_input(test.in[2], kF32);
        for (DType out : kFloats) {
          backward.out_types = {out};
          check(backward);
        }
      }
    }
  }
}

TEST_F(CpuOp, SumSquares) {
  Random random(1);
  for (DType dtype : kFloats) {
    for (int64_t count : {1, 33, 1025, 100'003}) {
      OpCase test{.kind = kSumSquares};
      test.add_input(random.normal({count}), dtype);
      test.out_types = {kF32};
      check(test);
    }
  }
}

TEST_F(CpuOp, AdamW) {
  Random random(1);
  const std::vector<DType> types[] = {
      {kF32, kF32, kF32, kF32},           // grad, param, m, v
      {kF32, kF32, kBF16, kBF16},         // bf16 moments
      {kBF16, kBF16, kF32, kF32, kF32},   // with a master copy
      {kBF16, kBF16, kF32, kBF16, kBF16}, // and bf16 moments
      {kF32, kBF16, kBF16, kBF16},        // all bf16, no master
  };
  for (const auto& list : types) {
    for (int64_t count : {1, 33, 1025, 20'000}) check(adamw_case(count, list, random));
  }
}

TEST_F(CpuOp, AdamWWithoutClipping) {
  Random random(1);
  OpCase test = adamw_case(1000, {kF32, kF32, kF32, kF32}, random);
  test.attrs.set(Attr::kMaxNorm, 0);
  check(test);
}

TEST_F(CpuOp, AdamWTouchesNothingWhenTheNormIsNotFinite) {
  for (double norm : {INFINITY, NAN}) {
    Random random(1);
    OpCase test = adamw_case(1000, {kF32, kF32, kF32, kF32}, random);
    test.in[1].values = {norm};
    const OpRun run = run_on_cpu(test, test.before, true, 2);
    for (size_t i = 0; i < run.out.size(); ++i) {
      EXPECT_EQ(run.out[i].values, test.before[i].values);
    }
  }
}

}  // namespace
}  // namespace spillway
