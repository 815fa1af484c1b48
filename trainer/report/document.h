// A report as data: what it says is said once, and Markdown and HTML are two ways to print it. So no
// figure can be in one and not in the other: a chart carries the numbers that it is drawn from, as a
// table, and Markdown prints that.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

namespace spillway::report {

// `value` to that many significant digits: what is shown and what is plotted is the same number.
[[nodiscard]] double rounded(double value, int digits = 6);

struct Text {
  std::string text;
};

struct List {
  std::vector<std::string> items;
};

struct Column {
  std::string title, unit = {};
  std::string group = {};  // above it, and above its neighbours of the same group
  bool number = true;      // set to the right
};
struct Cell {
  std::string text;
  std::string tag = {};  // beside it, small: where it is from, or what it is not
  bool faint = false;
};
struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// Which drawing of report.js: it reads columns by their names.
enum class ChartKind : uint8_t {
  kBars,    // a bar a row: name, its parts and total in seconds, published (a mark), fits (yes, no)
  kMemory,  // a step line a column: seconds, GPU GiB[, host GiB]; facts: lines across
  kStreams,  // a lane an engine: window, engine, name, begin, end; facts: windows, their lengths; all us
};
[[nodiscard]] const char* name_of(ChartKind kind);

// One drawing of a chart. Cells are numbers, texts, or null for none.
struct Series {
  std::string title;
  bool main = true;  // drawn in print, and the first of them before anyone has chosen
  std::vector<std::pair<std::string, double>> facts = {};
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;
};
struct Chart {
  ChartKind kind = ChartKind::kBars;
  std::string caption;
  std::vector<Series> series;  // more than one: the reader chooses
};

using Block = std::variant<Text, List, Table, Chart>;

struct Section {
  std::string title;
  std::vector<Block> blocks;
  bool folded = false;  // on a screen, until somebody opens it
  std::vector<Section> sections = {};
};

struct Document {
  std::string title, subtitle;
  std::vector<Section> sections;
};

// Numbers of charts with thousands of them come last, as CSV.
[[nodiscard]] std::string to_markdown(const Document& document);
// One file that needs nothing else.
[[nodiscard]] std::string to_html(const Document& document);

}  // namespace spillway::report
