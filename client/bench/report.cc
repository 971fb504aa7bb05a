#include "client/bench/report.h"

#include <iomanip>
#include <sstream>

namespace topk::cli {
namespace {

struct Column {
  const char* name;
  const char* key;
  double share;
};
constexpr Column kPercentiles[] = {
    {"p50", "p50_us", 0.5},       {"p90", "p90_us", 0.9},
    {"p95", "p95_us", 0.95},      {"p99", "p99_us", 0.99},
    {"p99.9", "p99_9_us", 0.999}, {"max", "max_us", 1}};

double Microseconds(const Histogram& times, double share) {
  return static_cast<double>(times.Percentile(share)) / 1e3;
}

void PrintTimes(int64_t requests, const Histogram& times, const char* name,
                std::ostream& out) {
  out << std::setw(8) << requests << std::setw(7) << TimeText(times.mean());
  for (const Column& column : kPercentiles) {
    out << std::setw(7)
        << TimeText(static_cast<double>(times.Percentile(column.share)));
  }
  out << "  " << name << "\n";
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

void PrintText(const LoadResult& result, std::ostream& out) {
  const LoadStats& stats = result.stats;
  const double rate = static_cast<double>(stats.answered()) / result.seconds;
  out << std::fixed << stats.answered() << " requests in "
      << std::setprecision(2) << result.seconds
      << " s: " << std::setprecision(rate < 100 ? 2 : 0) << rate
      << " requests/s; " << stats.verified << " verified\n";
  if (result.interrupted) out << "interrupted: the load ended early\n";
  if (!result.kept_up) {
    out << "the callers could not keep up: at the end, requests were "
        << TimeText(result.lag * 1e9)
        << " late; due but not sent: " << result.missed << "\n";
  }
  for (const auto& [code, count] : stats.errors) {
    out << count << " requests failed: " << code << "\n";
  }
  if (stats.retried > 0) {
    out << stats.retried << " requests needed several attempts\n";
  }
  out << "\nrequests   mean";
  for (const Column& column : kPercentiles) out << std::setw(7) << column.name;
  out << "\n";
  PrintTimes(stats.answered(), stats.latency, "latency", out);
  PrintTimes(stats.answered(), stats.compute, "computing", out);
}

nlohmann::ordered_json ToJson(const LoadResult& result) {
  const LoadStats& stats = result.stats;
  nlohmann::ordered_json json = {
      {"requests", stats.answered()},
      {"seconds", result.seconds},
      {"requests_per_second",
       static_cast<double>(stats.answered()) / result.seconds},
      {"interrupted", result.interrupted},
      {"kept_up", result.kept_up},
      {"missed", result.missed},
      {"lag_us", result.lag * 1e6},
      {"mean_us", stats.latency.mean() / 1e3}};
  for (const Column& column : kPercentiles) {
    json[column.key] = Microseconds(stats.latency, column.share);
  }
  json["compute_mean_us"] = stats.compute.mean() / 1e3;
  json["compute_p50_us"] = Microseconds(stats.compute, 0.5);
  json["compute_p99_us"] = Microseconds(stats.compute, 0.99);
  json["verified"] = stats.verified;
  json["errors"] = stats.errors;
  json["retry_hints"] = stats.retry_hints;
  json["retried"] = stats.retried;
  return json;
}

std::string CsvRow(double end, double seconds, const LoadStats& stats) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << end << ',' << stats.answered()
       << ',' << static_cast<double>(stats.answered()) / seconds << ','
       << Microseconds(stats.latency, 0.5) << ','
       << Microseconds(stats.latency, 0.99) << ',' << stats.failed();
  return text.str();
}

}  // namespace topk::cli
