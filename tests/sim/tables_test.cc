#include "device/sim/tables.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

TEST(Tables, AShapeOfTheTableGetsItsOwnRow) {
  const Rates rates(toy_hardware());
  EXPECT_DOUBLE_EQ(rates.matmul(Operands::kBF16, 4096, 4096, 4096), 80e12);
  EXPECT_DOUBLE_EQ(rates.grouped(Pass::kWgrad, 8, 256, 256, 256), 10e12);
  EXPECT_DOUBLE_EQ(rates.attention(true, 128, 128, 4096), 40e12);
}

TEST(Tables, BetweenRowsLiesBetweenRates) {
  const double rate = Rates(toy_hardware()).matmul(Operands::kBF16, 1024, 1024, 1024);
  EXPECT_GT(rate, 20e12);
  EXPECT_LT(rate, 80e12);
}

// Inverse squares of distances: log 2, log 2, log 4, log 8; the fifth is too far.
TEST(Tables, TheFourNearestCount) {
  Hardware h;
  h.bf16_matmul.rows = {
      {2, 1, 1, 10}, {1, 2, 1, 20}, {1, 1, 4, 30}, {8, 1, 1, 40}, {1, 16, 1, 1000}};
  const double mean = (10 + 20 + 30 / 4.0 + 40 / 9.0) / (1 + 1 + 1 / 4.0 + 1 / 9.0);
  EXPECT_NEAR(Rates(h).matmul(Operands::kBF16, 1, 1, 1), mean * 1e12, 1);
  EXPECT_THROW((void)Rates(h).grouped(Pass::kForward, 1, 1, 1, 1), ConfigError);
}

TEST(Tables, MemoryOpsAreInterpolatedInLogSize) {
  Hardware h;
  h.memory_ops.rows = {{OpKind::kAdd, 1e6, 10}, {OpKind::kAdd, 1e8, 1000}, {OpKind::kRope, 1e6, 7}};
  const Rates rates(h);
  EXPECT_NEAR(rates.memory_op(OpKind::kAdd, 1e6), 10e9, 1);
  EXPECT_NEAR(rates.memory_op(OpKind::kAdd, 1e7), 100e9, 1e3);
  EXPECT_NEAR(rates.memory_op(OpKind::kAdd, 1), 10e9, 1);       // the ends hold
  EXPECT_NEAR(rates.memory_op(OpKind::kAdd, 1e12), 1000e9, 1e3);
  EXPECT_NEAR(rates.memory_op(OpKind::kRope, 1e9), 7e9, 1);
  EXPECT_EQ(rates.memory_op(OpKind::kSwiglu, 1e6), 0);
}

TEST(Tables, CollectivesKeepTheirFloorAndTheirBandwidth) {
  const auto rates = [](std::vector<CollectiveRow> rows) {
    Hardware h;
    h.collectives.rows = std::move(rows);
    return Rates(h);
  };
  const Rates table = rates(
      {{CollectiveKind::kAllGather, 8, 1e6, 10}, {CollectiveKind::kAllGather, 8, 1e9, 100}});
  auto seconds = [&](double bytes, int ranks = 8) {
    return table.collective_seconds(CollectiveKind::kAllGather, ranks, bytes);
  };
  EXPECT_NEAR(seconds(1e6), 1e-4, 1e-12);
  EXPECT_NEAR(seconds(10), 1e-4, 1e-12);           // latency
  EXPECT_NEAR(seconds(10e9), 0.1, 1e-9);           // bandwidth
  EXPECT_GT(seconds(1e8), seconds(1e7));
  EXPECT_DOUBLE_EQ(seconds(1e9, 1), 0);            // nobody to talk to
  const Rates large = rates({{CollectiveKind::kAllGather, 8, 256e6, 256}});
  EXPECT_NEAR(large.collective_seconds(CollectiveKind::kAllGather, 8, 128e6), 0.5e-3, 1e-9);
  EXPECT_NEAR(large.collective_seconds(CollectiveKind::kAllGather, 8, 1), 50e-6, 1e-12);
  EXPECT_THROW((void)table.collective_seconds(CollectiveKind::kAllReduce, 8, 1), ConfigError);
}

}  // namespace
}  // namespace spillway::sim
