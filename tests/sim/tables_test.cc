#include "device/sim/tables.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

TEST(Tables, AShapeOfTheTableGetsItsOwnRow) {
  const Hardware h = toy_hardware();
  EXPECT_DOUBLE_EQ(matmul_flop_per_s(h.bf16_matmul, 4096, 4096, 4096), 80e12);
  EXPECT_DOUBLE_EQ(grouped_flop_per_s(h.bf16_grouped, Pass::kWgrad, 8, 256, 256, 256), 10e12);
  EXPECT_DOUBLE_EQ(attention_flop_per_s(h.bf16_attention, true, 128, 128, 4096), 40e12);
}

TEST(Tables, BetweenRowsLiesBetweenRates) {
  const Hardware h = toy_hardware();
  const double rate = matmul_flop_per_s(h.bf16_matmul, 1024, 1024, 1024);
  EXPECT_GT(rate, 20e12);
  EXPECT_LT(rate, 80e12);
}

TEST(Tables, CollectivesKeepTheirFloorAndTheirBandwidth) {
  const Table<CollectiveRow> table{{{CollectiveKind::kAllGather, 8, 1e6, 10},
                                    {CollectiveKind::kAllGather, 8, 1e9, 100}}};
  auto seconds = [&](double bytes, int ranks = 8) {
    return collective_seconds(table, CollectiveKind::kAllGather, ranks, bytes);
  };
  EXPECT_NEAR(seconds(1e6), 1e-4, 1e-12);
  EXPECT_NEAR(seconds(10), 1e-4, 1e-12);           // latency
  EXPECT_NEAR(seconds(10e9), 0.1, 1e-9);           // bandwidth
  EXPECT_GT(seconds(1e8), seconds(1e7));
  EXPECT_DOUBLE_EQ(seconds(1e9, 1), 0);            // nobody to talk to
  const Table<CollectiveRow> large{{{CollectiveKind::kAllGather, 8, 256e6, 256}}};
  EXPECT_NEAR(collective_seconds(large, CollectiveKind::kAllGather, 8, 128e6), 0.5e-3, 1e-9);
  EXPECT_NEAR(collective_seconds(large, CollectiveKind::kAllGather, 8, 1), 50e-6, 1e-12);
  EXPECT_THROW((void)collective_seconds(table, CollectiveKind::kAllReduce, 8, 1), ConfigError);
}

}  // namespace
}  // namespace spillway::sim
