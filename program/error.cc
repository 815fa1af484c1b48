#include "program/error.h"

#include <algorithm>
#include <numeric>

namespace spillway {
namespace {

// Levenshtein distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& legal) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : legal) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= std::max<size_t>(2, name.size() / 3)) near.emplace_back(distance, candidate);
  }
  if (near.empty()) {  // a wrong ending: what begins alike
    for (const std::string& candidate : legal) {
      if (name.size() > 3 && candidate.substr(0, 3) == name.substr(0, 3)) {
        near.emplace_back(edit_distance(name, candidate), candidate);
      }
    }
  }
  if (near.empty()) return "";
  std::sort(near.begin(), near.end());
  std::string text = ", did you mean ";
  for (size_t i = 0; i < near.size() && near[i].first == near[0].first && i < 3; ++i) {
    text += (i ? " or " : "") + near[i].second;
  }
  return text + "?";
}

}  // namespace spillway
