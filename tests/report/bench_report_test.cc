// What a bench report says, and that its two forms say the same.
#include "trainer/report/bench_report.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/report/sample_report.h"
#include "trainer/report/assets.h"
#include "trainer/report/document.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json charts_of(const std::string& html) {
  const std::string start = "<script type=\"application/json\" id=\"charts\">";
  const size_t begin = html.find(start) + start.size();
  return json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

void add_numbers(const json& value, std::vector<double>& numbers) {
  if (value.is_number()) numbers.push_back(value.get<double>());
  if (!value.is_structured()) return;
  for (const json& inner : value) add_numbers(inner, numbers);
}

std::set<double> numbers_in(const std::string& text) {
  static const std::regex kNumber(R"([0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)");
  std::set<double> numbers;
  for (std::sregex_iterator it(text.begin(), text.end(), kNumber), end; it != end; ++it) {
    numbers.insert(std::stod(it->str()));
  }
  return numbers;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(BenchReport, MarkdownIsTheGolden) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/report/sample_report.md");
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(to_markdown(sample_report()), golden.str());
}

TEST(BenchReport, EveryNumberOfTheHtmlsChartsIsInTheMarkdown) {
  std::vector<double> plotted;
  add_numbers(charts_of(to_html(sample_report())), plotted);
  EXPECT_GT(plotted.size(), 50U);
  const std::set<double> written = numbers_in(to_markdown(sample_report()));
  for (double number : plotted) EXPECT_TRUE(written.contains(number)) << number;
}

// Tables, lists and texts too: of what a reader sees in the HTML, without its tags.
TEST(BenchReport, EveryNumberOfTheHtmlsTextIsInTheMarkdown) {
  const std::string html = to_html(sample_report());
  const size_t begin = html.find("<main>");
  std::string text = html.substr(begin, html.find("</main>") - begin);
  text = std::regex_replace(text, std::regex("<[^>]*>"), " ");
  text = std::regex_replace(text, std::regex("&#39;"), "'");
  const std::set<double> written = numbers_in(to_markdown(sample_report()));
  for (double number : numbers_in(text)) EXPECT_TRUE(written.contains(number)) << number;
}

TEST(BenchReport, NoTextEscapesIntoTheHtml) {
  BenchReport report = sample_report();
  report.table.title = report.table.source = report.device = kHostile;
  report.results[0].row.title = report.results[0].row.group = kHostile;
  report.results[0].step->forward.spans[0].name = kHostile;
  report.results[0].step->hbm.at_peak[0].name = kHostile;
  const std::string html = to_html(report);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_EQ(count(html, "<script"), 3U);
  EXPECT_EQ(count(html, "</script"), 3U);
  const json charts = charts_of(html);
  EXPECT_EQ(charts.back()["series"][0]["rows"][0][2], kHostile);
  EXPECT_EQ(charts.front()["series"][0]["rows"][0][0], kHostile);
}

TEST(BenchReport, NoTextEndsACellOfAMarkdownTable) {
  BenchReport report = sample_report();
  report.results[0].row.title = "one\ntwo|three";
  const std::string text = to_markdown(report);
  const size_t begin = text.find("| one two\\|three | simulated |");
  ASSERT_NE(begin, std::string::npos);
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  EXPECT_EQ(count(line, "|") - count(line, "\\|"), 15U);  // 14 columns
}

TEST(BenchReport, BytesThatAreNoUtf8StillMakeAPage) {
  BenchReport report = sample_report();
  report.results[0].row.title = "\xff\xfe";
  EXPECT_THAT(to_html(report), HasSubstr("\\ufffd"));
}

TEST(BenchReport, AssetsCanStandInAScript) {
  for (std::string_view asset : {report_css(), report_js(), d3_js()}) {
    EXPECT_GT(asset.size(), 1000U);
    EXPECT_EQ(asset.find("</script"), std::string_view::npos);
    EXPECT_EQ(asset.find("</style"), std::string_view::npos);
  }
}

TEST(BenchReport, RatiosAreOursOverThePublished) {
  BenchReport report = sample_report();
  EXPECT_DOUBLE_EQ(rate_ratio(report.results[0]).value(), 0.8);    // 400 / 500
  EXPECT_DOUBLE_EQ(memory_ratio(report.results[0]).value(), 0.8);  // 100 / 125
  EXPECT_FALSE(rate_ratio(report.results[1]).has_value());         // it does not fit
  EXPECT_FALSE(rate_ratio(report.results[2]).has_value());
  report.results[1].step->hbm.peak = 0;
  EXPECT_DOUBLE_EQ(rate_ratio(report.results[1]).value(), 2.5 / 1.6);
  EXPECT_EQ(mean_rate_error(report)->rows, 2);
  EXPECT_DOUBLE_EQ(mean_rate_error(report)->value, (0.2 + (2.5 / 1.6 - 1)) / 2);
  EXPECT_EQ(mean_memory_error(report)->rows, 1);
  report.results.clear();
  EXPECT_FALSE(mean_rate_error(report).has_value());
}

TEST(BenchReport, AReportOfNoRowsIsStillAPage) {
  BenchReport report = sample_report();
  report.results.clear();
  EXPECT_THAT(to_markdown(report), HasSubstr("# A sample"));
  EXPECT_TRUE(charts_of(to_html(report)).empty());
}

TEST(Document, RoundsToWhatIsShown) {
  EXPECT_EQ(report::rounded(1.0 / 3), 0.333333);
  EXPECT_EQ(report::rounded(123456789.0, 3), 123000000);
  EXPECT_EQ(report::rounded(std::numeric_limits<double>::infinity()), 0);
}

}  // namespace
}  // namespace spillway
