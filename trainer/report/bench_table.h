// A published table to hold Spillway against: configs/NAME/table.yaml.
//
//   title: ...
//   source: ...
//   notes: [...]
//   rows:
//     dsv3_pipelined:                          # the row's id
//       title: DeepSeek-V3, pipelined offload
//       group: "Table 1: DeepSeek-V3 671B"     # rows of a group are shown together
//       config: deepseek_v3.yaml               # relative to the table
//       set: [train.micro_batch=8]             # overrides, paths in them relative to the table
//       hardware: gb200_nvl72
//       ranks: 128
//       published:                             # any of these; what is not there is not public
//         tflops_per_device: {value: 908.2, tag: quoted, source: "Table 1"}
//         fits: {value: true, tag: quoted, source: ...}
//         speedup: {value: 1.57, tag: quoted, source: ..., over: dsv3_remat}
//       assumptions: [...]                     # choices that the source leaves open
//       missing: ...                           # what a prediction that misses by over 15 % lacks
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// Where a published figure is from.
enum class Tag : uint8_t {
  kQuoted,    // it stands in the source
  kDerived,   // arithmetic on quoted figures; `source` gives it
  kInferred,  // may be wrong
};
[[nodiscard]] const char* name_of(Tag tag);

struct Published {
  double value = 0;
  Tag tag = Tag::kQuoted;
  std::string source;
};

struct BenchRow {
  std::string id, title, group;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string hardware;
  int ranks = 1;
  std::optional<Published> tflops_per_device, seconds, tokens_per_s_per_device;
  std::optional<Published> hbm_gib, host_gib;
  std::optional<Published> fits;  // 1: yes, 0: out of memory
  std::optional<Published> speedup;  // this row's rate over that of row `speedup_over`
  std::string speedup_over;
  std::vector<std::string> assumptions;
  std::string missing;
};

struct BenchTable {
  std::string name;  // "paper": the folder's
  std::filesystem::path path;
  std::string title, source;
  std::vector<std::string> notes;
  std::vector<BenchRow> rows;  // in the order of the file; ids are unique
};

// NAME is configs/NAME/table.yaml, found as hardware_named() finds its files, or the path of such a
// file. Throws ConfigError naming file, line, key and what is legal; also for a config that is not
// there, or an `over` that is no row.
[[nodiscard]] BenchTable load_bench_table(const std::string& name);

}  // namespace spillway
