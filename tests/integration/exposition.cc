#include "tests/integration/exposition.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace topk::testing {
namespace {

// Returns the family of a sample: for a histogram or summary, without its
// suffix.
std::string FamilyOf(const std::string& name,
                     const std::map<std::string, std::string>& types) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto found = types.find(family);
    if (found != types.end() &&
        (found->second == "histogram" || found->second == "summary")) {
      return family;
    }
  }
  return name;
}

}  // namespace

std::string ReadExposition(const std::string& text, Exposition& to) {
  if (!text.ends_with('\n')) return "it does not end with a line";
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      std::string type;
      std::istringstream(line.substr(7)) >> family >> type;
      if (!to.types.emplace(family, type).second) return "twice: " + line;
      continue;
    }
    const size_t space = line.rfind(' ');
    const size_t brace = std::min(line.find('{'), space);
    const std::string name = line.substr(0, brace);
    const std::string labels =
        brace == space ? "" : line.substr(brace + 1, space - brace - 2);
    if (FamilyOf(name, to.types) != family) return "in no family: " + line;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + space + 1, &end);
    if (*end != '\0') return "no number: " + line;
    // Quantiles may decrease, and are NaN without observations.
    if (to.types[family] == "summary" && name == family) continue;
    const std::string series = name + "{" + labels + "}";
    if (!to.samples.emplace(series, value).second) return "twice: " + line;
    if (to.types[family] == "gauge") continue;
    if (!(value >= 0)) return "negative: " + line;
  }
  return "";
}

std::string CheckMonotonic(const Exposition& before, const Exposition& after) {
  for (const auto& [series, value] : before.samples) {
    const std::string name = series.substr(0, series.find('{'));
    const std::string family = FamilyOf(name, before.types);
    if (before.types.at(family) == "gauge") continue;
    const auto now = after.samples.find(series);
    if (now == after.samples.end()) return "gone: " + series;
    if (now->second < value) return "went down: " + series;
  }
  return "";
}

}  // namespace topk::testing
