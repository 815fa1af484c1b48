#include <fmt/format.h>

#include <algorithm>

#include "trainer/report/document.h"
#include "trainer/report/page.h"

namespace spillway::report {
namespace {

nlohmann::json json_of(const Series& series) {
  nlohmann::json facts = nlohmann::json::array();
  for (const auto& [name, value] : series.facts)
    facts.push_back({{"name", name}, {"value", value}});
  return {{"title", series.title},
          {"main", series.main},
          {"facts", facts},
          {"columns", series.columns},
          {"rows", series.rows}};
}

class Html {
 public:
  std::string print(const Document& document) {
    out_ = fmt::format("<header>\n<h1>{}</h1>\n<p class=\"subtitle\">{}</p>\n</header>\n",
                       escape_html(document.title), escape_html(document.subtitle));
    for (const Section& section : document.sections) print(section, 2);
    return html_page(document.title, out_, charts_);
  }

 private:
  void print(const Section& section, int depth) {
    const std::string heading = fmt::format("<h{0}>{1}</h{0}>", depth, escape_html(section.title));
    out_ += section.folded ? "<details>\n<summary>" + heading + "</summary>\n"
                           : "<section>\n" + heading + "\n";
    for (const Block& block : section.blocks) {
      std::visit([&](const auto& it) { print(it); }, block);
    }
    for (const Section& inner : section.sections) print(inner, depth + 1);
    out_ += section.folded ? "</details>\n" : "</section>\n";
  }

  void print(const Text& text) { out_ += "<p>" + escape_html(text.text) + "</p>\n"; }

  void print(const List& list) {
    out_ += "<ul>\n";
    for (const std::string& item : list.items) out_ += "<li>" + escape_html(item) + "</li>\n";
    out_ += "</ul>\n";
  }

  void print(const Table& table) {
    out_ += fmt::format(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
        escape_html(table.caption.empty() ? "table" : table.caption));
    if (!table.caption.empty()) {
      out_ += "<caption>" + escape_html(table.caption) + "</caption>\n";
    }
    out_ += "<thead>";
    print_groups(table.columns);
    out_ += "<tr>";
    for (const Column& column : table.columns) print(column);
    out_ += "</tr></thead>\n<tbody>\n";
    for (const std::vector<Cell>& row : table.rows) {
      out_ += "<tr>";
      for (size_t i = 0; i < row.size(); ++i) print(row[i], table.columns[i], i == 0);
      out_ += "</tr>\n";
    }
    out_ += "</tbody>\n</table>\n</div>\n";
  }

  void print_groups(const std::vector<Column>& columns) {
    if (std::ranges::all_of(columns, [](const Column& column) { return column.group.empty(); }))
      return;
    out_ += "<tr>";
    for (size_t first = 0, last; first < columns.size(); first = last) {
      for (last = first + 1; last < columns.size() && columns[last].group == columns[first].group;)
        ++last;
      out_ += columns[first].group.empty()
                  ? fmt::format("<td colspan=\"{}\"></td>", last - first)
                  : fmt::format("<th scope=\"colgroup\" colspan=\"{}\">{}</th>", last - first,
                                escape_html(columns[first].group));
    }
    out_ += "</tr>\n";
  }

  void print(const Column& column) {
    out_ += fmt::format("<th scope=\"col\"{}>{}", column.number ? " class=\"number\"" : "",
                        escape_html(column.title));
    if (!column.unit.empty()) {
      out_ += "<span class=\"unit\">" + escape_html(column.unit) + "</span>";
    }
    out_ += "</th>";
  }

  void print(const Cell& cell, const Column& column, bool head) {
    const char* element = head ? "th" : "td";
    out_ += fmt::format("<{}{}{}{}>", element, head ? " scope=\"row\"" : "",
                        column.number ? " class=\"number\"" : "", cell.faint ? " data-faint" : "");
    out_ += escape_html(cell.text);
    if (!cell.tag.empty()) out_ += " <span class=\"tag\">" + escape_html(cell.tag) + "</span>";
    out_ += fmt::format("</{}>", element);
  }

  void print(const Chart& chart) {
    out_ += fmt::format(
        "<figure data-chart=\"{}\"><div "
        "class=\"drawing\"></div><figcaption>{}</figcaption></figure>\n",
        charts_.size(), escape_html(chart.caption));
    nlohmann::json series = nlohmann::json::array();
    for (const Series& one : chart.series) series.push_back(json_of(one));
    charts_.push_back({{"kind", name_of(chart.kind)}, {"series", series}});
  }

  std::string out_;
  nlohmann::json charts_ = nlohmann::json::array();
};

}  // namespace

std::string to_html(const Document& document) { return Html().print(document); }

}  // namespace spillway::report
