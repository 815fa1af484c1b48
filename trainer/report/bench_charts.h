// Charts of a bench report. Rows that did not run are not in them.
#pragma once

#include "trainer/report/bench_tables.h"
#include "trainer/report/document.h"

namespace spillway::report {

// A drawing of ChartKind::kBars, and a bar of it. `published`: seconds, or null.
[[nodiscard]] Series parts_series(std::string title);
void add_parts(Series& series, const std::string& row, const StepReport& step,
               nlohmann::json published = nullptr);

[[nodiscard]] Chart parts_chart(const std::string& group, const Results& results);

// One drawing a row; `main`: the rows that print shows.
[[nodiscard]] Chart memory_chart(const Results& results, const Results& main);
[[nodiscard]] Chart streams_chart(const Results& results, const Results& main);

// Of each group the fastest row that fits; the first that ran where none does.
[[nodiscard]] Results main_rows(const std::vector<Results>& groups);

}  // namespace spillway::report
