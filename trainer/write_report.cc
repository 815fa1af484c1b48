#include "trainer/write_report.h"

#include <fmt/format.h>

#include <string>

#include "trainer/atomic_file.h"

namespace spillway {

void write_report(const std::filesystem::path& folder, const report::Document& document, std::ostream& out) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    AtomicFile file(folder / name);
    file.append(text);
    file.publish();
  };
  write("report.md", to_markdown(document));
  write("report.html", to_html(document));
  out << fmt::format("Wrote {0}/report.md and {0}/report.html\n", folder.string());
}

}  // namespace spillway
