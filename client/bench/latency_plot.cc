#include "client/bench/latency_plot.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <vector>

namespace topk::cli {
namespace {

constexpr int kMaxRows = 20;
// A narrower range is below the histogram's own resolution.
constexpr double kMinFactor = 1.1;
// The columns next to a row's bar: its lower bound and its number of calls.
constexpr int kLabelColumns = 8;
constexpr int kCountColumns = 10;

// Returns a bar of `eighths` eighths of a column.
std::string Bar(int64_t eighths) {
  static constexpr const char* kParts[] = {
      "", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
  std::string bar;
  for (; eighths >= 8; eighths -= 8) bar += "\u2588";
  return bar + kParts[eighths];
}

}  // namespace

std::string TimeText(double nanoseconds) {
  const char* unit = "us";
  double value = nanoseconds / 1e3;
  if (value >= 1e6) {
    unit = "s";
    value /= 1e6;
  } else if (value >= 1e3) {
    unit = "ms";
    value /= 1e3;
  }
  std::ostringstream text;
  text << std::fixed
       << std::setprecision(value < 10    ? 2
                            : value < 100 ? 1
                                          : 0)
       << value << unit;
  return text.str();
}

void PrintPlot(const Histogram& latency, int columns, std::ostream& out) {
  const std::vector<Histogram::Step> steps = latency.Steps();
  if (steps.empty()) return;
  const auto low = static_cast<double>(std::max<int64_t>(1, steps[0].low));
  const double range = std::log(static_cast<double>(steps.back().high) / low);
  const int rows =
      std::clamp(static_cast<int>(range / std::log(kMinFactor)), 1, kMaxRows);
  std::vector<int64_t> counts(static_cast<size_t>(rows));
  for (const Histogram::Step& step : steps) {
    const double middle = static_cast<double>(step.low + step.high) / 2;
    const double row = std::log(middle / low) / range * rows;
    counts[static_cast<size_t>(std::clamp(row, 0.0, rows - 1.0))] += step.count;
  }
  const int64_t peak = *std::max_element(counts.begin(), counts.end());
  const int64_t width =
      std::max(8, columns - kLabelColumns - kCountColumns - 3);
  for (size_t row = 0; row < counts.size(); ++row) {
    const double begin =
        low * std::exp(range * static_cast<double>(row) / rows);
    const int64_t eighths = (counts[row] * width * 8 + peak - 1) / peak;
    out << std::setw(kLabelColumns) << TimeText(begin) << " |" << Bar(eighths)
        << " " << counts[row] << "\n";
  }
}

}  // namespace topk::cli
