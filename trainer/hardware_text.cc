#include "trainer/hardware_text.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "program/op_table.h"
#include "trainer/hardware_spellings.h"

namespace spillway {
namespace {

constexpr double kMiB = 1 << 20;

std::string number(double value) { return fmt::format("{:.6g}", value); }

void put_origin(YAML::Emitter& out, Mark mark, const std::string& source) {
  out << YAML::Key << "mark" << YAML::Value << spelling_of<Mark>(kMarks, mark);
  out << YAML::Key << "source" << YAML::Value << YAML::DoubleQuoted << source;
}

void put_figure(YAML::Emitter& out, const char* key, const Figure& figure) {
  out << YAML::Key << key << YAML::Value << YAML::Flow << YAML::BeginMap;
  out << YAML::Key << "value" << YAML::Value << number(figure.value);
  put_origin(out, figure.mark, figure.source);
  out << YAML::EndMap;
}

// `cells` gives the columns of a row, as text.
template <class Row, class Cells>
void put_table(YAML::Emitter& out, const char* key, const char* rows_key, const Table<Row>& table,
               const Cells& cells) {
  if (table.rows.empty()) return;
  out << YAML::Newline << YAML::Key << key << YAML::Value << YAML::BeginMap;
  put_origin(out, table.mark, table.source);
  out << YAML::Key << rows_key << YAML::Value << YAML::BeginSeq;
  for (const Row& row : table.rows) out << YAML::Flow << cells(row);
  out << YAML::EndSeq << YAML::EndMap;
}

using Cells = std::vector<std::string>;

void put_tables(YAML::Emitter& out, const Hardware& h) {
  const auto matmul = [](const MatmulRow& r) {
    return Cells{number(r.m), number(r.n), number(r.k), number(r.tflops)};
  };
  put_table(out, "bf16_matmul", rows_key::kMatmul, h.bf16_matmul, matmul);
  put_table(out, "fp8_matmul", rows_key::kMatmul, h.fp8_matmul, matmul);
  put_table(out, "f32_matmul", rows_key::kMatmul, h.f32_matmul, matmul);
  put_table(out, "bf16_grouped", rows_key::kGrouped, h.bf16_grouped, [](const GroupedRow& r) {
    return Cells{number(r.experts), number(r.m),      number(r.n),           number(r.k),
                 number(r.tflops),  number(r.dgrad_tflops), number(r.wgrad_tflops)};
  });
  put_table(out, "bf16_attention", rows_key::kAttention, h.bf16_attention,
            [](const AttentionRow& r) {
              return Cells{number(r.head_dim), number(r.v_head_dim), number(r.seq),
                           number(r.tflops), number(r.bwd_tflops)};
            });
  put_table(out, "collectives", rows_key::kCollectives, h.collectives, [](const CollectiveRow& r) {
    return Cells{spelling_of<CollectiveKind>(kCollectives, r.kind), std::to_string(r.ranks),
                 number(r.bytes / kMiB), number(r.gb_per_s)};
  });
  put_table(out, "memory_ops", rows_key::kMemoryOps, h.memory_ops, [](const MemoryOpRow& r) {
    return Cells{std::string(op_info(r.op).name), number(r.bytes / kMiB), number(r.gb_per_s)};
  });
}

}  // namespace

std::string hardware_text(const Hardware& hardware, const std::string& comment) {
  YAML::Emitter out;
  out << YAML::Comment(comment) << YAML::Newline << YAML::BeginMap;
  out << YAML::Key << "title" << YAML::Value << YAML::DoubleQuoted << hardware.title;
  if (hardware.preliminary) out << YAML::Key << "preliminary" << YAML::Value << true;
  out << YAML::Key << "gpus_per_socket" << YAML::Value << hardware.gpus_per_socket;
  out << YAML::Key << "gpus_per_node" << YAML::Value << hardware.gpus_per_node;
  out << YAML::Key << "gpus_per_domain" << YAML::Value << hardware.gpus_per_domain << YAML::Newline;
  for (const FigureKey& figure : kFigures) {
    const Figure& value = hardware.*figure.figure;
    if (figure.optional && value.source.empty()) continue;
    put_figure(out, figure.key, value);
  }
  put_tables(out, hardware);
  out << YAML::EndMap << YAML::Newline;
  return out.c_str();
}

}  // namespace spillway
