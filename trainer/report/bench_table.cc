#include "trainer/report/bench_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "program/error.h"
#include "trainer/named_file.h"
#include "trainer/yaml_section.h"

namespace spillway {
namespace {

constexpr std::array<Spelling<Tag>, 3> kTags{
    {{"quoted", Tag::kQuoted}, {"derived", Tag::kDerived}, {"inferred", Tag::kInferred}}};

// What a row may publish; `fits` and `speedup` are read apart.
struct FigureKey {
  const char* key;
  std::optional<Published> BenchRow::*figure;
};
constexpr std::array<FigureKey, 5> kFigures{{
    {"tflops_per_device", &BenchRow::tflops_per_device},
    {"seconds", &BenchRow::seconds},
    {"tokens_per_s_per_device", &BenchRow::tokens_per_s_per_device},
    {"hbm_gib", &BenchRow::hbm_gib},
    {"host_gib", &BenchRow::host_gib},
}};

std::string text(YamlSection& section, const char* key) {
  std::string result = section.string(key, kRequired);
  if (result.find_first_not_of(" \t\n") == std::string::npos) section.fail(key, "is empty");
  return result;
}

Published read_origin(YamlSection& section, double value) {
  return {value, section.choice<Tag>("tag", kRequired, kTags), text(section, "source")};
}

void read_published(BenchRow& row, YamlSection& published) {
  for (const auto& [key, figure] : kFigures) {
    if (!published.has(key)) continue;
    YamlSection section = published.section(key);
    row.*figure = read_origin(section, section.real("value", kRequired, kAboveZero));
    section.finish();
  }
  if (published.has("fits")) {
    YamlSection section = published.section("fits");
    row.fits = read_origin(section, section.boolean("value", kRequired) ? 1 : 0);
    section.finish();
  }
  if (published.has("speedup")) {
    YamlSection section = published.section("speedup");
    row.speedup = read_origin(section, section.real("value", kRequired, kAboveZero));
    row.speedup_over = text(section, "over");
    section.finish();
  }
  published.finish();
}

BenchRow read_row(const std::string& id, YamlSection section, const std::filesystem::path& folder) {
  BenchRow row{.id = id};
  row.title = text(section, "title");
  row.group = text(section, "group");
  row.config = (folder / text(section, "config")).lexically_normal();
  std::error_code error;
  if (!std::filesystem::is_regular_file(row.config, error)) {
    section.fail("config", fmt::format("is a file that does not exist: {}", row.config.string()));
  }
  row.overrides = section.strings("set");
  row.hardware = text(section, "hardware");
  row.ranks = static_cast<int>(section.integer("ranks", kRequired, {.min = 1, .max = 1 << 24}));
  YamlSection published = section.section("published");
  read_published(row, published);
  row.assumptions = section.strings("assumptions");
  row.missing = section.string("missing", "");
  section.finish();
  return row;
}

}  // namespace

const char* name_of(Tag tag) { return spelling_of<Tag>(kTags, tag); }

BenchTable load_bench_table(const std::string& name) {
  BenchTable table;
  table.path = named_file({"bench", "", "/table.yaml"}, name);
  const std::filesystem::path folder = table.path.parent_path();
  table.name = std::filesystem::absolute(table.path).parent_path().filename().string();
  YamlSection root(load_yaml(table.path), "", {});
  table.title = text(root, "title");
  table.source = text(root, "source");
  table.notes = root.strings("notes");
  YamlSection rows = root.section("rows");
  root.finish();
  const std::vector<std::string> ids = rows.keys();
  if (ids.empty()) root.fail("rows", "has none");
  for (const std::string& id : ids) {
    YamlSection section = rows.section(id);
    table.rows.push_back(read_row(id, section, folder));
    const std::string& over = table.rows.back().speedup_over;
    if (!over.empty() && (over == id || std::ranges::count(ids, over) == 0)) {
      section.section("published").section("speedup").fail(
          "over", fmt::format("is {}{}; must be another row: {}", over, did_you_mean(over, ids),
                              fmt::join(ids, ", ")));
    }
  }
  return table;
}

}  // namespace spillway
