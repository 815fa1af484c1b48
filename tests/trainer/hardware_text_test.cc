#include "trainer/hardware_text.h"

#include <gmock/gmock.h>

#include "tests/trainer/temp_dir.h"
#include "trainer/hardware_file.h"
#include "trainer/hardware_spellings.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

Hardware there_and_back(const Hardware& hardware) {
  const TempDir dir;
  return load_hardware(dir.write("copy.yaml", hardware_text(hardware, "A copy.\nOf two lines.")));
}

// Six digits are kept.
void expect_close(double a, double b) { EXPECT_NEAR(a, b, 1e-5 * std::abs(b)); }

template <class Row>
void expect_same_table(const Table<Row>& a, const Table<Row>& b) {
  EXPECT_EQ(a.rows.size(), b.rows.size());
  EXPECT_EQ(a.mark, b.mark);
  EXPECT_EQ(a.source, b.source);
}

TEST(HardwareText, EveryFileThatShipsComesBack) {
  const auto folder = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "configs" / "hardware";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Hardware h = load_hardware(entry.path());
    const Hardware copy = there_and_back(h);
    EXPECT_EQ(copy.title, h.title);
    EXPECT_EQ(copy.preliminary, h.preliminary);
    EXPECT_EQ(copy.gpus_per_socket, h.gpus_per_socket);
    EXPECT_EQ(copy.gpus_per_node, h.gpus_per_node);
    EXPECT_EQ(copy.gpus_per_domain, h.gpus_per_domain);
    for (const FigureKey& key : kFigures) {
      const Figure &a = copy.*key.figure, &b = h.*key.figure;
      expect_close(a.value, b.value);
      EXPECT_EQ(a.mark, b.mark) << key.key;
      EXPECT_EQ(a.source, b.source) << key.key;
    }
    expect_same_table(copy.bf16_matmul, h.bf16_matmul);
    expect_same_table(copy.fp8_matmul, h.fp8_matmul);
    expect_same_table(copy.bf16_grouped, h.bf16_grouped);
    expect_same_table(copy.bf16_attention, h.bf16_attention);
    expect_same_table(copy.collectives, h.collectives);
    expect_same_table(copy.memory_ops, h.memory_ops);
    expect_close(copy.bf16_grouped.rows.back().wgrad_tflops, h.bf16_grouped.rows.back().wgrad_tflops);
    expect_close(copy.collectives.rows.back().bytes, h.collectives.rows.back().bytes);
  }
}

TEST(HardwareText, OptionalPartsAreWrittenWhenTheyAreThere) {
  Hardware h = load_hardware(std::filesystem::path(SPILLWAY_SOURCE_DIR) / "configs" / "hardware" /
                             "h100_sxm.yaml");
  for (const char* key : {"wait_us", "copy_sm_share", "f32_matmul", "memory_ops"}) {
    EXPECT_THAT(hardware_text(h, ""), Not(HasSubstr(key)));
  }
  h.wait_us = {3.5, Mark::kMeasured, "a test: of \"quotes\" and # signs"};
  h.copy_sm_share = {0, Mark::kMeasured, "copies take nothing"};
  h.f32_matmul = {{{4, 8, 16, 0.25}}, Mark::kMeasured, "one"};
  h.memory_ops = {{{OpKind::kSwigluBwd, 3 << 20, 12.5}}, Mark::kComputed, "two"};
  const Hardware copy = there_and_back(h);
  EXPECT_EQ(copy.wait_us.value, 3.5);
  EXPECT_EQ(copy.wait_us.source, h.wait_us.source);
  EXPECT_EQ(copy.copy_sm_share.source, "copies take nothing");
  EXPECT_EQ(copy.f32_matmul.rows.at(0).tflops, 0.25);
  EXPECT_EQ(copy.memory_ops.mark, Mark::kComputed);
  EXPECT_EQ(copy.memory_ops.rows.at(0).op, OpKind::kSwigluBwd);
  EXPECT_EQ(copy.memory_ops.rows.at(0).bytes, 3 << 20);
  EXPECT_EQ(copy.memory_ops.rows.at(0).gb_per_s, 12.5);
}

}  // namespace
}  // namespace spillway
