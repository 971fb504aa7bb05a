#include "tests/integration/exposition.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "tests/support/regular_expression.h"

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

// The state of a histogram whose buckets are being parsed.
struct Buckets {
  double last_bound = -INFINITY;
  double last_count = 0;
};

}  // namespace

std::string ReadExposition(const std::string& text, Exposition& to) {
  static const RegularExpression type_line(
      "# TYPE ([a-zA-Z_][a-zA-Z0-9_]*) (counter|gauge|histogram|summary)");
  static const RegularExpression help_line("# HELP [a-zA-Z_][a-zA-Z0-9_]* .+");
  // The name, labels in braces, the value.
  static const RegularExpression sample_line(
      "([a-zA-Z_][a-zA-Z0-9_]*)"
      R"((\{(([a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\.)*",?)*)\})? ([^ ]+))");
  static const RegularExpression le(R"re(((.*),)?le="([^"]*)")re");
  if (!text.ends_with('\n')) return "it does not end with a line";
  std::map<std::string, Buckets> buckets;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!help_line.Match(line).empty()) continue;
    if (const auto part = type_line.Match(line); !part.empty()) {
      family = part[1];
      if (!to.types.emplace(family, part[2]).second) return "twice: " + line;
      continue;
    }
    const auto part = sample_line.Match(line);
    if (part.empty()) return "no line: " + line;
    const std::string name = part[1];
    const std::string labels = part[3];
    if (FamilyOf(name, to.types) != family) return "in no family: " + line;
    char* end = nullptr;
    const std::string number = part[6];
    const double value = std::strtod(number.c_str(), &end);
    if (*end != '\0') return "no number: " + line;
    // Quantiles may decrease, and are NaN without observations.
    if (to.types[family] == "summary" && name == family) continue;
    const std::string series = name + "{" + labels + "}";
    if (!to.samples.emplace(series, value).second) return "twice: " + line;
    if (to.types[family] == "gauge") continue;
    if (!(value >= 0)) return "negative: " + line;
    if (!name.ends_with("_bucket") || to.types[family] != "histogram") continue;
    const auto bound = le.Match(labels);
    if (bound.empty()) return "no bound: " + line;
    const std::string histogram = family + "{" + bound[2] + "}";
    Buckets& so_far = buckets[histogram];
    const double limit =
        bound[3] == "+Inf" ? INFINITY : std::strtod(bound[3].c_str(), {});
    if (!(limit > so_far.last_bound) || value < so_far.last_count) {
      return "not ascending: " + line;
    }
    so_far = {limit, value};
  }
  for (const auto& [histogram, last] : buckets) {
    const size_t at = histogram.find('{');
    const std::string name = histogram.substr(0, at);
    const std::string labels = histogram.substr(at);
    if (last.last_bound != INFINITY) return "no +Inf: " + histogram;
    const auto count = to.samples.find(name + "_count" + labels);
    const auto sum = to.samples.find(name + "_sum" + labels);
    if (count == to.samples.end() || sum == to.samples.end()) {
      return "no sum or count: " + histogram;
    }
    if (count->second != last.last_count) return "+Inf != count: " + histogram;
    if (count->second == 0 && sum->second != 0) return "a sum: " + histogram;
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
