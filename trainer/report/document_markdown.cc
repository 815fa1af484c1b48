#include <fmt/format.h>

#include <cctype>
#include <string_view>

#include "trainer/report/document.h"

namespace spillway::report {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Of one line: without what would be markup, or the end of a table's cell. An underscore inside a word is
// none.
std::string escaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool inside =
        i > 0 && i + 1 < text.size() && is_word(text[i - 1]) && is_word(text[i + 1]);
    const bool markup =
        std::string_view("\\`*[]<>|~$&").find(c) != std::string_view::npos ||
        (c == '_' && !inside) ||
        (i == 0 && std::string_view("#+-=").find(c) != std::string_view::npos && text.size() > 1);
    if (markup) result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string header_text(const Column& column) {
  const std::string title = column.group.empty()   ? column.title
                            : column.title.empty() ? column.group
                                                   : column.group + ": " + column.title;
  return column.unit.empty() ? title : fmt::format("{} ({})", title, column.unit);
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_null()) return "";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string csv_field(const nlohmann::json& value) {
  std::string text = value_text(value);
  if (text.find_first_of(",\"\r\n`") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c == '\n' || c == '\r' ? ' ' : c == '`' ? '\'' : c;  // "```" would end the block
  }
  return result + "\"";
}

class Markdown {
 public:
  std::string print(const Document& document) {
    out_ = fmt::format("# {}\n\n{}\n", escaped(document.title), escaped(document.subtitle));
    for (const Section& section : document.sections) print(section, 2);
    if (!csv_.empty()) out_ += "\n## Numbers behind the plots\n" + csv_;
    return std::move(out_);
  }

 private:
  void print(const Section& section, int depth) {
    out_ += fmt::format("\n{} {}\n", std::string(static_cast<size_t>(depth), '#'),
                        escaped(section.title));
    for (const Block& block : section.blocks) {
      out_ += "\n";
      std::visit([&](const auto& it) { print(it); }, block);
    }
    for (const Section& inner : section.sections) print(inner, depth + 1);
  }

  void print(const Text& text) { out_ += escaped(text.text) + "\n"; }

  void print(const List& list) {
    for (const std::string& item : list.items) out_ += "- " + escaped(item) + "\n";
  }

  void row(const std::vector<std::string>& cells) {
    out_ += "|";
    for (const std::string& cell : cells) out_ += " " + cell + " |";
    out_ += "\n";
  }

  void rule(const std::vector<Column>& columns) {
    out_ += "|";
    for (const Column& column : columns) out_ += column.number ? "---:|" : "---|";
    out_ += "\n";
  }

  void print(const Table& table) {
    if (!table.caption.empty()) out_ += escaped(table.caption) + "\n\n";
    std::vector<std::string> cells;
    for (const Column& column : table.columns) cells.push_back(escaped(header_text(column)));
    row(cells);
    rule(table.columns);
    for (const std::vector<Cell>& line : table.rows) {
      cells.clear();
      for (const Cell& cell : line) {
        cells.push_back(
            escaped(cell.tag.empty() ? cell.text : fmt::format("{} ({})", cell.text, cell.tag)));
      }
      row(cells);
    }
  }

  void print(const Chart& chart) {
    out_ += fmt::format("{}{}\n", escaped(chart.caption),
                        chart.kind == ChartKind::kBars
                            ? ""
                            : " The HTML plots it; its numbers are at the end of this file.");
    for (const Series& series : chart.series) {
      chart.kind == ChartKind::kBars ? print_table(series) : add_csv(chart, series);
    }
  }

  static std::string facts_text(const Series& series) {
    std::string text;
    for (const auto& [name, value] : series.facts) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, value);
    }
    return text;
  }

  void print_table(const Series& series) {
    out_ += fmt::format("\n{}\n\n", escaped(series.title));
    std::vector<Column> columns;
    std::vector<std::string> cells;
    for (const std::string& name : series.columns) {
      columns.push_back({.title = name, .number = !columns.empty()});
      cells.push_back(escaped(name));
    }
    row(cells);
    rule(columns);
    for (const std::vector<nlohmann::json>& line : series.rows) {
      cells.clear();
      for (const nlohmann::json& value : line) cells.push_back(escaped(value_text(value)));
      row(cells);
    }
  }

  void add_csv(const Chart& chart, const Series& series) {
    csv_ += fmt::format("\n### {}: {}\n\n", name_of(chart.kind), escaped(series.title));
    if (!series.facts.empty()) csv_ += escaped(facts_text(series)) + "\n\n";
    csv_ += "```csv\n";
    for (size_t i = 0; i < series.columns.size(); ++i) {
      csv_ += (i > 0 ? "," : "") + csv_field(series.columns[i]);
    }
    csv_ += "\n";
    for (const std::vector<nlohmann::json>& line : series.rows) {
      for (size_t i = 0; i < line.size(); ++i) csv_ += (i > 0 ? "," : "") + csv_field(line[i]);
      csv_ += "\n";
    }
    csv_ += "```\n";
  }

  std::string out_, csv_;
};

}  // namespace

std::string to_markdown(const Document& document) { return Markdown().print(document); }

}  // namespace spillway::report
