#include "trainer/hardware_file.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path shipped_folder() {
  return std::filesystem::path(SPILLWAY_SOURCE_DIR) / "configs" / "hardware";
}

std::vector<Hardware> shipped() {
  std::vector<Hardware> result;
  for (const auto& entry : std::filesystem::directory_iterator(shipped_folder())) {
    result.push_back(load_hardware(entry.path()));
  }
  return result;
}

std::vector<Figure> figures(const Hardware& h) {
  return {h.hbm_bytes,
          h.hbm_gb_per_s,
          h.hbm_fraction,
          h.reserve_bytes,
          h.bf16_tflops,
          h.fp8_tflops,
          h.f32_tflops,
          h.sustained_fraction,
          h.launch_us,
          h.host_bytes_per_socket,
          h.host_gb_per_s_per_socket,
          h.d2h_gb_per_s,
          h.h2d_gb_per_s,
          h.far_socket_fraction,
          h.nic_gb_per_s,
          h.nic_latency_us,
          h.collective_sm_share};
}

// gh200.yaml with one text replaced by another, each once.
std::string edited(const std::vector<std::pair<std::string, std::string>>& edits) {
  std::ifstream in(shipped_folder() / "gh200.yaml");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const auto& [from, to] : edits) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
  }
  return text;
}

std::string error_with(const std::string& from, const std::string& to) {
  const TempDir dir;
  const std::string path = dir.write("mine.yaml", edited({{from, to}}));
  return message_of<ConfigError>([&] { (void)load_hardware(path); });
}

// Table rows as people read them: no numbers that a unit or a convention would put out of reach.
void check_rates(const Hardware& h) {
  for (const MatmulRow& row : h.bf16_matmul.rows) EXPECT_LT(row.tflops, h.bf16_tflops.value);
  for (const MatmulRow& row : h.fp8_matmul.rows) EXPECT_LT(row.tflops, h.fp8_tflops.value);
  for (const GroupedRow& row : h.bf16_grouped.rows) {
    EXPECT_LT(std::max({row.tflops, row.dgrad_tflops, row.wgrad_tflops}), h.bf16_tflops.value);
  }
  for (const AttentionRow& row : h.bf16_attention.rows) {
    EXPECT_LT(std::max(row.tflops, row.bwd_tflops), 0.75 * h.bf16_tflops.value);
  }
}

TEST(HardwareFile, EveryFileThatShipsLoads) {
  std::set<std::string> names;
  for (const Hardware& h : shipped()) {
    names.insert(h.name);
    EXPECT_EQ(h.preliminary, h.name == "vera_rubin");
    for (const Figure& figure : figures(h)) {
      EXPECT_GT(figure.value, 0) << h.name;
      EXPECT_GT(figure.source.size(), 3U) << h.name;
    }
    for (const std::string& source :
         {h.bf16_matmul.source, h.fp8_matmul.source, h.bf16_grouped.source, h.bf16_attention.source,
          h.collectives.source}) {
      EXPECT_GT(source.size(), 20U) << h.name;
    }
    check_rates(h);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"gb200_nvl72", "gb300_nvl72", "b200_hgx", "h100_sxm",
                                            "h200_sxm", "gh200", "vera_rubin"}));
}

TEST(HardwareFile, ValuesAndUnitsArriveAsWritten) {
  const Hardware h = load_hardware(shipped_folder() / "gb200_nvl72.yaml");
  EXPECT_EQ(h.title, "NVIDIA GB200 NVL72");
  EXPECT_EQ(h.gpus_per_socket, 2);
  EXPECT_EQ(h.gpus_per_node, 4);
  EXPECT_EQ(h.gpus_per_domain, 72);
  EXPECT_EQ(h.hbm_bytes.value, 197897748480.0);
  EXPECT_EQ(h.hbm_bytes.mark, Mark::kSpecification);
  EXPECT_EQ(h.d2h_gb_per_s.value, 183);
  EXPECT_EQ(h.d2h_gb_per_s.mark, Mark::kMeasured);
  EXPECT_EQ(h.sustained_fraction.mark, Mark::kAssumed);
  EXPECT_EQ(load_hardware(shipped_folder() / "b200_hgx.yaml").sustained_fraction.mark,
            Mark::kComputed);
  // The sm_90 rows that XLA's table has for fp8 are above the peak: nothing measured is left.
  EXPECT_EQ(load_hardware(shipped_folder() / "h100_sxm.yaml").fp8_matmul.mark, Mark::kAssumed);
  EXPECT_EQ(h.bf16_grouped.rows.front().wgrad_tflops, 174);
  const CollectiveRow& first = h.collectives.rows.front();
  EXPECT_EQ(first.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(first.ranks, 4);
  EXPECT_EQ(first.bytes, 262144);
  EXPECT_EQ(first.gb_per_s, 16);
}

// MLA at 4096 in the file is half of what SimuMax prints, which counts the whole square.
TEST(HardwareFile, AttentionCountsTheCausalHalf) {
  const Hardware h = load_hardware(shipped_folder() / "b200_hgx.yaml");
  for (const AttentionRow& row : h.bf16_attention.rows) {
    if (row.head_dim == 192 && row.seq == 4096) {
      EXPECT_EQ(row.tflops, 935);
      EXPECT_EQ(row.bwd_tflops, 723);
    }
  }
}

TEST(HardwareFile, LargerCollectivesAreNotMuchSlower) {
  for (const Hardware& h : shipped()) {
    std::map<std::pair<CollectiveKind, int>, std::map<double, double>> series;
    for (const CollectiveRow& row : h.collectives.rows) {
      EXPECT_LE(row.ranks, h.gpus_per_domain);
      const std::pair key(row.kind, row.ranks);
      EXPECT_TRUE(series[key].emplace(row.bytes, row.gb_per_s).second)
          << h.name << ": two rows for " << row.ranks << " ranks and " << row.bytes << " bytes";
    }
    for (const auto& [key, rates] : series) {
      double best = 0;
      for (const auto& [bytes, rate] : rates) {
        EXPECT_GT(rate, 0.7 * best) << h.name << ": " << key.second << " ranks, " << bytes;
        best = std::max(best, rate);
      }
    }
  }
}

TEST(HardwareFile, ErrorsNameFileLineKeyAndWhatIsLegal) {
  EXPECT_THAT(error_with("hbm_bytes:", "hbm_byte:"),
              AllOf(HasSubstr("mine.yaml:"), HasSubstr("hbm_byte is not a key, did you mean "
                                                       "hbm_bytes?")));
  EXPECT_THAT(error_with("{value: 4000,", "{valeu: 4000,"),
              HasSubstr("hbm_gb_per_s.value is missing (but hbm_gb_per_s.valeu is there: "));
  EXPECT_THAT(error_with("value: 4000,", "value: -4000,"),
              HasSubstr("hbm_gb_per_s.value is -4000; must be greater than 0"));
  EXPECT_THAT(error_with("value: 4000,", "value: 0,"),
              HasSubstr("hbm_gb_per_s.value is 0; must be greater than 0"));
  EXPECT_THAT(error_with("value: 4000,", "value: 4 TB/s,"),
              HasSubstr("hbm_gb_per_s.value is 4 TB/s; must be a number"));
  EXPECT_THAT(error_with("value: 0.9\n", "value: 90\n"),
              HasSubstr("hbm_fraction.value is 90; must be in (0, 1]"));
  EXPECT_THAT(error_with("mark: measured", "mark: mesured"),
              HasSubstr("mark is mesured, did you mean measured?; must be one of: measured, "
                        "specification, computed, assumed"));
  EXPECT_THAT(error_with("source: \"", "sauce: \""),
              HasSubstr("source is missing (but hbm_bytes.sauce is there: "));
  EXPECT_THAT(error_with("source: \"GH200 data sheet, HBM3\"", "source: \" \""),
              HasSubstr("hbm_bytes.source is empty; say where"));
  EXPECT_THAT(error_with("title: NVIDIA GH200", "title: ''"), HasSubstr("title is empty"));
  EXPECT_THAT(error_with("gpus_per_node: 4", "gpus_per_node: 0"),
              HasSubstr("gpus_per_node is 0; must be in [1,"));
  EXPECT_THAT(error_with("gpus_per_domain: 4", "gpus_per_domain: 6"),
              HasSubstr("gpus_per_domain is 6, not a multiple of gpus_per_node, 4"));
}

TEST(HardwareFile, AMissingNumberIsAnErrorAndSoIsABareOne) {
  const TempDir dir;
  const auto error = [&](const std::string& text) {
    const std::string path = dir.write("mine.yaml", text);
    return message_of<ConfigError>([&] { (void)load_hardware(path); });
  };
  const std::string layout =
      "title: Mine\ngpus_per_socket: 4\ngpus_per_node: 8\ngpus_per_domain: 8\n";
  EXPECT_THAT(error("title: Mine\n"), HasSubstr("gpus_per_socket is missing"));
  EXPECT_THAT(error(layout), HasSubstr("hbm_bytes is missing; must be {value: NUMBER, mark: MARK, "
                                       "source: TEXT}"));
  EXPECT_THAT(error(layout + "hbm_bytes: 80e9\n"),
              HasSubstr("mine.yaml:5: hbm_bytes must be {value: NUMBER, mark: MARK"));
  EXPECT_THAT(error(layout + "hbm_bytes: {value: 80e9, source: x}\n"),
              HasSubstr("mine.yaml:5: hbm_bytes.mark is missing"));
  EXPECT_THAT(error(layout + "hbm_bytes: {value: 80e9, mark: assumed, source: x, unit: GB}\n"),
              HasSubstr("hbm_bytes.unit is not a key; legal: value, mark, source"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)load_hardware(dir.path("none.yaml")); }),
              HasSubstr("cannot read"));
}

TEST(HardwareFile, RowsAreChecked) {
  const std::string row = "- [4096, 4096, 4096, 780]";
  EXPECT_THAT(error_with(row, "- [4096, 4096, 780]"),
              AllOf(HasSubstr("mine.yaml:"), HasSubstr("bf16_matmul.rows_m_n_k_tflops["),
                    HasSubstr("] has 3 values; must have 4: m, n, k, tflops")));
  EXPECT_THAT(error_with(row, "- 780"), HasSubstr("] has 0 values; must have 4"));
  EXPECT_THAT(error_with(row, "- [4096, 0, 4096, 780]"),
              HasSubstr("].n is 0; must be greater than 0"));
  EXPECT_THAT(error_with(row, "- [4096, 4096, 4096, fast]"),
              HasSubstr("].tflops is fast; must be a number"));
  EXPECT_THAT(error_with("- [all_gather, 4, 256,", "- [all_gathers, 4, 256,"),
              HasSubstr("].kind is all_gathers, did you mean all_gather?"));
  EXPECT_THAT(error_with("- [all_gather, 4, 256,", "- [all_gather, 4.5, 256,"),
              HasSubstr("].ranks is 4.5; must be a whole number"));
  EXPECT_THAT(error_with("- [all_gather, 4, 256,", "- [all_gather, 8, 256,"),
              HasSubstr("].ranks is 8, but a domain has 4 GPUs"));
  EXPECT_THAT(error_with("  rows_m_n_k_tflops:\n", "  rows_m_k_n_tflops:\n"),
              HasSubstr("bf16_matmul.rows_m_n_k_tflops is missing (but "
                        "bf16_matmul.rows_m_k_n_tflops is there: "));
  EXPECT_THAT(error_with("  rows_m_n_k_tflops:\n", "  rows_m_n_k_tflops: []\n  more:\n"),
              HasSubstr("bf16_matmul.rows_m_n_k_tflops must be a list of rows [m, n, k, tflops], "
                        "one at least"));
}

TEST(HardwareFile, RatesAboveThePeakFail) {
  EXPECT_THAT(error_with("- [4096, 4096, 4096, 780]", "- [4096, 4096, 4096, 1417]"),
              HasSubstr("].tflops is 1417, above the peak: bf16_tflops is 989"));
  // What the sm_90 fp8 rows of XLA's table have.
  EXPECT_THAT(error_with("- [4096, 4096, 4096, 1522]", "- [4096, 4096, 4096, 2424]"),
              HasSubstr("].tflops is 2424, above the peak: fp8_tflops is 1979"));
  EXPECT_THAT(error_with("- [128, 128, 16384, 600, 480]", "- [128, 128, 16384, 600, 1000]"),
              HasSubstr("].bwd_tflops is 1000, above the peak: bf16_tflops is 989"));
  EXPECT_THAT(error_with("- [40, 9832, 3072, 5120, 641, 642, 565]",
                         "- [40, 9832, 3072, 5120, 641, 642, 1565]"),
              HasSubstr("].wgrad_tflops is 1565, above the peak: bf16_tflops is 989"));
}

// gh200.yaml has none of the optional parts.
std::string error_with_more(const std::string& more) {
  const TempDir dir;
  const std::string path = dir.write("mine.yaml", edited({}) + more);
  return message_of<ConfigError>([&] { (void)load_hardware(path); });
}

TEST(HardwareFile, OptionalPartsAreAsStrict) {
  const std::string table = "\nmemory_ops:\n  mark: measured\n  source: here\n  rows_op_mib_gb_per_s: ";
  EXPECT_EQ(error_with_more(table + "[[add, 1, 4000], [adamw, 0.5, 100]]\n"), "");
  EXPECT_THAT(error_with_more(table + "[[adds, 1, 100]]\n"),
              HasSubstr("].op is adds, did you mean add?; must be an op of program/op_table.cc"));
  EXPECT_THAT(error_with_more(table + "[[add, 1, 4001]]\n"),
              HasSubstr("].gb_per_s is 4001, above the peak: hbm_gb_per_s is 4000"));
  EXPECT_THAT(error_with_more(table + "[[add, 0, 100]]\n"),
              HasSubstr("].mib is 0; must be greater than 0"));
  EXPECT_THAT(error_with_more("\nf32_matmul: {mark: measured, source: here, "
                              "rows_m_n_k_tflops: [[1, 1, 1, 68]]}\n"),
              HasSubstr("].tflops is 68, above the peak: f32_tflops is"));
  EXPECT_THAT(error_with_more("\nwait_us: {value: -1, mark: measured, source: here}\n"),
              HasSubstr("wait_us.value is -1; must be"));
  EXPECT_THAT(error_with_more("\ncopy_sm_share: {value: 1, mark: measured, source: here}\n"),
              HasSubstr("copy_sm_share.value is 1; must be in [0, 1)"));
}

// SimuMax's fractions of 8 TB/s.
TEST(HardwareFile, MemoryOpsOfB200AreInTheTable) {
  for (const char* name : {"b200_hgx.yaml", "gb200_nvl72.yaml", "gb300_nvl72.yaml"}) {
    const Hardware h = load_hardware(shipped_folder() / name);
    std::map<OpKind, double> rates;
    for (const MemoryOpRow& row : h.memory_ops.rows) rates[row.op] = row.gb_per_s;
    EXPECT_NEAR(rates[OpKind::kDispatch], 0.5008 * 8000, 1) << name;
    EXPECT_NEAR(rates[OpKind::kCombineBwd], 0.5108 * 8000, 1) << name;
    EXPECT_NEAR(rates[OpKind::kCrossEntropy], 0.3246 * 8000, 1) << name;
    EXPECT_GT(h.memory_ops.source.size(), 20U);
  }
}

// Tests run anywhere: the current directory is a copy's.
class HardwareNamed : public testing::Test {
 protected:
  HardwareNamed() : before_(std::filesystem::current_path()) {
    dir_.write("configs/hardware/mine_8.yaml", edited({}));
    std::filesystem::current_path(dir_.path());
  }
  ~HardwareNamed() override { std::filesystem::current_path(before_); }

  TempDir dir_;
  std::filesystem::path before_;
};

TEST_F(HardwareNamed, FindsNamesAndPaths) {
  EXPECT_EQ(hardware_named("mine_8").name, "mine_8");
  EXPECT_EQ(hardware_named("configs/hardware/mine_8.yaml").name, "mine_8");
  EXPECT_EQ(hardware_named((shipped_folder() / "h100_sxm.yaml").string()).name, "h100_sxm");
}

TEST_F(HardwareNamed, AnUnknownNameListsThoseThereAre) {
  EXPECT_THAT(message_of<ConfigError>([] { (void)hardware_named("mine_9"); }),
              AllOf(HasSubstr("hardware mine_9 is not known, did you mean mine_8?; there are: "),
                    HasSubstr("mine_8")));
}

TEST(HardwareName, EveryFileOfThisCheckoutHasAName) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(SPILLWAY_SOURCE_DIR);
  for (const Hardware& h : shipped()) EXPECT_EQ(hardware_named(h.name).title, h.title);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace spillway
