#include "trainer/hardware_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "program/error.h"
#include "program/op_table.h"
#include "trainer/hardware_spellings.h"
#include "trainer/named_file.h"
#include "trainer/yaml_section.h"

namespace spillway {
namespace {

constexpr const char* kFigureForm = "{value: NUMBER, mark: MARK, source: TEXT}";

// What a key of the file holds, in place of a mapping in another file.
YamlSection mapping(YamlSection& root, const YamlNode& node, const std::string& key,
                    const std::string& form) {
  if (!root.has(key)) root.fail(key, "is missing; must be " + form);
  if (node.find(key)->kind != YamlNode::Kind::kMap) root.fail(key, "must be " + form);
  return root.section(key);
}

std::string text(YamlSection& section, const std::string& key, const char* what) {
  std::string result = section.string(key, kRequired);
  if (result.find_first_not_of(" \t\n") == std::string::npos) {
    section.fail(key, std::string("is empty; ") + what);
  }
  return result;
}

void read_origin(YamlSection& section, Mark& mark, std::string& source) {
  mark = section.choice<Mark>("mark", kRequired, kMarks);
  source = text(section, "source", "say where the number is from, or what an assumption rests on");
}

void read_layout(Hardware& hardware, YamlSection& root) {
  constexpr IntRange kGpus{.min = 1, .max = 1 << 20};
  const auto read = [&](const char* key) {
    return static_cast<int>(root.integer(key, kRequired, kGpus));
  };
  hardware.gpus_per_socket = read("gpus_per_socket");
  hardware.gpus_per_node = read("gpus_per_node");
  hardware.gpus_per_domain = read("gpus_per_domain");
  const auto check_multiple = [&](const char* key, int whole, const char* part_key, int part) {
    if (whole % part == 0) return;
    root.fail(key, fmt::format("is {}, not a multiple of {}, {}", whole, part_key, part));
  };
  check_multiple("gpus_per_node", hardware.gpus_per_node, "gpus_per_socket",
                 hardware.gpus_per_socket);
  check_multiple("gpus_per_domain", hardware.gpus_per_domain, "gpus_per_node",
                 hardware.gpus_per_node);
}

using Columns = std::vector<std::string>;

// `read` makes a Row of a section whose keys are the columns.
template <class Row, class Read>
Table<Row> read_table(YamlSection section, const std::string& rows_key, const Columns& columns,
                      Read read) {
  Table<Row> table;
  read_origin(section, table.mark, table.source);
  for (YamlSection& row : section.rows(rows_key, columns)) table.rows.push_back(read(row));
  section.finish();
  return table;
}

double above_zero(YamlSection& row, const char* key) {
  return row.real(key, kRequired, kAboveZero);
}

// Achieved rates. One above the peak counts other FLOPs, or is another machine's.
double rate(YamlSection& row, const char* key, const char* peak_key, const Figure& peak) {
  const double tflops = above_zero(row, key);
  if (tflops > peak.value) {
    row.fail(key, fmt::format("is {}, above the peak: {} is {}", tflops, peak_key, peak.value));
  }
  return tflops;
}

Table<MatmulRow> read_matmul(YamlSection section, const char* peak_key, const Figure& peak) {
  const auto read = [&](YamlSection& row) -> MatmulRow {
    return {above_zero(row, "m"), above_zero(row, "n"), above_zero(row, "k"),
            rate(row, "tflops", peak_key, peak)};
  };
  return read_table<MatmulRow>(std::move(section), rows_key::kMatmul, {"m", "n", "k", "tflops"},
                               read);
}

Table<GroupedRow> read_grouped(YamlSection section, const Figure& peak) {
  const auto read = [&](YamlSection& row) -> GroupedRow {
    return {above_zero(row, "experts"),
            above_zero(row, "m"),
            above_zero(row, "n"),
            above_zero(row, "k"),
            rate(row, "tflops", "bf16_tflops", peak),
            rate(row, "dgrad_tflops", "bf16_tflops", peak),
            rate(row, "wgrad_tflops", "bf16_tflops", peak)};
  };
  return read_table<GroupedRow>(
      std::move(section), rows_key::kGrouped,
      {"experts", "m", "n", "k", "tflops", "dgrad_tflops", "wgrad_tflops"}, read);
}

Table<AttentionRow> read_attention(YamlSection section, const Figure& peak) {
  const auto read = [&](YamlSection& row) -> AttentionRow {
    return {above_zero(row, "head_dim"), above_zero(row, "v_head_dim"), above_zero(row, "seq"),
            rate(row, "tflops", "bf16_tflops", peak), rate(row, "bwd_tflops", "bf16_tflops", peak)};
  };
  return read_table<AttentionRow>(std::move(section),
                                  rows_key::kAttention,
                                  {"head_dim", "v_head_dim", "seq", "tflops", "bwd_tflops"}, read);
}

Table<CollectiveRow> read_collectives(YamlSection section, int gpus_per_domain) {
  const auto read = [&](YamlSection& row) -> CollectiveRow {
    constexpr double kMiB = 1 << 20;
    const auto kind = row.choice<CollectiveKind>("kind", kRequired, kCollectives);
    const int64_t ranks = row.integer("ranks", kRequired, {.min = 2, .max = 1 << 20});
    if (ranks > gpus_per_domain) {
      row.fail("ranks", fmt::format("is {}, but a domain has {} GPUs", ranks, gpus_per_domain));
    }
    return {kind, static_cast<int>(ranks), above_zero(row, "mib") * kMiB,
            above_zero(row, "gb_per_s")};
  };
  return read_table<CollectiveRow>(std::move(section), rows_key::kCollectives,
                                   {"kind", "ranks", "mib", "gb_per_s"}, read);
}

OpKind memory_op(YamlSection& row) {
  const std::string name = row.string("op", kRequired);
  std::vector<std::string> names;
  for (int i = 0; i < kOpKindCount; ++i) {
    names.emplace_back(op_info(static_cast<OpKind>(i)).name);
    if (names.back() == name) return static_cast<OpKind>(i);
  }
  row.fail("op", fmt::format("is {}{}; must be an op of program/op_table.cc", name,
                             did_you_mean(name, names)));
}

Table<MemoryOpRow> read_memory_ops(YamlSection section, const Figure& peak) {
  const auto read = [&](YamlSection& row) -> MemoryOpRow {
    constexpr double kMiB = 1 << 20;
    const MemoryOpRow result{memory_op(row), above_zero(row, "mib") * kMiB,
                             above_zero(row, "gb_per_s")};
    if (result.gb_per_s > peak.value) {
      row.fail("gb_per_s", fmt::format("is {}, above the peak: hbm_gb_per_s is {}", result.gb_per_s,
                                       peak.value));
    }
    return result;
  };
  return read_table<MemoryOpRow>(std::move(section), rows_key::kMemoryOps,
                                 {"op", "mib", "gb_per_s"}, read);
}

void read_tables(Hardware& hardware, YamlSection& root, const YamlNode& node) {
  const auto table = [&](const char* key) {
    return mapping(root, node, key, "{mark: MARK, source: TEXT, rows_...: [[...], ...]}");
  };
  hardware.bf16_matmul = read_matmul(table("bf16_matmul"), "bf16_tflops", hardware.bf16_tflops);
  hardware.fp8_matmul = read_matmul(table("fp8_matmul"), "fp8_tflops", hardware.fp8_tflops);
  hardware.bf16_grouped = read_grouped(table("bf16_grouped"), hardware.bf16_tflops);
  hardware.bf16_attention = read_attention(table("bf16_attention"), hardware.bf16_tflops);
  hardware.collectives = read_collectives(table("collectives"), hardware.gpus_per_domain);
  if (root.has("f32_matmul")) {
    hardware.f32_matmul = read_matmul(table("f32_matmul"), "f32_tflops", hardware.f32_tflops);
  }
  if (root.has("memory_ops")) {
    hardware.memory_ops = read_memory_ops(table("memory_ops"), hardware.hbm_gb_per_s);
  }
}

// Makes every key legal, and rejects the others: a misspelt one is reported as that, not as missing.
void check_keys(const YamlNode& node) {
  YamlSection root(node, "", {});
  for (const char* key :
       {"title", "preliminary", "gpus_per_socket", "gpus_per_node", "gpus_per_domain"}) {
    (void)root.has(key);
  }
  for (const FigureKey& figure : kFigures) (void)root.has(figure.key);
  for (const char* key :
       {"bf16_matmul", "fp8_matmul", "f32_matmul", "bf16_grouped", "bf16_attention", "collectives",
        "memory_ops"}) {
    (void)root.has(key);
  }
  root.finish();
}

// What makes each of `figures` an assumption of whoever asks.
std::vector<YamlOverride> assumed(const std::vector<std::string>& figures) {
  std::vector<YamlOverride> result;
  for (const std::string& text : figures) {
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    if (std::ranges::find(kFigures, key, &FigureKey::key) == kFigures.end()) {
      std::vector<std::string> keys;
      for (const FigureKey& figure : kFigures) keys.emplace_back(figure.key);
      throw ConfigError(fmt::format("hardware.{} is not a figure{}; figures: {}", key,
                                    did_you_mean(key, keys), fmt::join(keys, ", ")));
    }
    result.push_back(parse_override(key + ".value" + text.substr(equals)));
    result.push_back(parse_override(key + ".mark=assumed"));
    result.push_back(parse_override(key + ".source=command line"));
  }
  return result;
}

}  // namespace

Hardware load_hardware(const std::filesystem::path& path, const std::vector<std::string>& figures) {
  const YamlNode node = load_yaml(path);
  check_keys(node);
  YamlSection root(node, "", assumed(figures));
  Hardware hardware;
  hardware.name = path.stem().string();
  hardware.title = text(root, "title", "name the machine");
  hardware.preliminary = root.boolean("preliminary", false);
  read_layout(hardware, root);
  for (const auto& [key, member, range, optional] : kFigures) {
    if (optional && !root.has(key)) continue;
    YamlSection section = mapping(root, node, key, kFigureForm);
    Figure& figure = hardware.*member;
    figure.value = section.real("value", kRequired, range);
    read_origin(section, figure.mark, figure.source);
    section.finish();
  }
  read_tables(hardware, root, node);
  return hardware;
}

Hardware hardware_named(const std::string& name, const std::vector<std::string>& figures,
                        const std::filesystem::path& beside) {
  return load_hardware(named_file({"hardware", "hardware/", ".yaml"}, name, beside), figures);
}

}  // namespace spillway
