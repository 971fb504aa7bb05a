#include "client/bench/report.h"

#include <iomanip>
#include <sstream>
#include <string>

#include "core/base/text.h"

namespace topk::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Column {
  const char* name;
  const char* key;
  double share;
};
constexpr Column kPercentiles[] = {
    {"p50", "p50_us", 0.5},       {"p90", "p90_us", 0.9},
    {"p95", "p95_us", 0.95},      {"p99", "p99_us", 0.99},
    {"p99.9", "p99_9_us", 0.999}, {"max", "max_us", 1}};

// Formats a time with three significant digits, e.g. "1.25ms".
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

void PrintLoad(const BenchFlags& flags, const std::string& request,
               std::ostream& out) {
  const LoadProfile& profile = flags.profile;
  out << request << ", " << flags.path;
  if (profile.batch > 1) out << " (" << profile.batch << " per call)";
  if (profile.rate > 0) {
    out << ", " << profile.rate << " requests/s scheduled ("
        << (profile.poisson ? "poisson" : "constant") << ")";
  } else {
    out << ", closed loop";
  }
  out << ", concurrency " << flags.concurrency << ", connections "
      << flags.connections << ", seed " << profile.seed << "\n";
}

}  // namespace

void PrintText(const BenchReport& report, std::ostream& out) {
  const LoadResult& result = report.result;
  const LoadStats& stats = result.stats;
  out << std::defaultfloat << std::setprecision(6);
  PrintLoad(report.flags, report.request.name, out);
  const double rate = static_cast<double>(stats.answered()) / result.seconds;
  const auto bytes = static_cast<double>(report.request.request_bytes);
  out << std::fixed << stats.answered() << " requests in "
      << std::setprecision(2) << result.seconds
      << " s: " << std::setprecision(rate < 100 ? 2 : 0) << rate
      << " requests/s, " << std::setprecision(3) << rate * bytes / 1e9
      << " GB/s; " << stats.verified << " verified\n";
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

OrderedJson ToJson(const BenchReport& report) {
  const BenchFlags& flags = report.flags;
  const LoadResult& result = report.result;
  const LoadStats& stats = result.stats;
  const double rate = static_cast<double>(stats.answered()) / result.seconds;
  const int64_t bytes = report.request.request_bytes;
  OrderedJson json = {
      {"request", report.request.name},
      {"path", flags.path},
      {"requests", stats.answered()},
      {"concurrency", flags.concurrency},
      {"connections", flags.connections},
      {"batch", flags.profile.batch},
      {"seed", flags.profile.seed},
      {"seconds", result.seconds},
      {"interrupted", result.interrupted},
      {"request_bytes", bytes},
      {"requests_per_second", rate},
      {"gigabytes_per_second", rate * static_cast<double>(bytes) / 1e9},
      {"rate", nullptr}};
  if (flags.profile.rate > 0) {
    json["rate"] = flags.profile.rate;
    json["arrivals"] = flags.profile.poisson ? "poisson" : "constant";
    json["kept_up"] = result.kept_up;
    json["missed"] = result.missed;
    json["lag_us"] = result.lag * 1e6;
  }
  json["mean_us"] = stats.latency.mean() / 1e3;
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

std::string ToText(const ProgressRow& row) {
  const LoadStats& stats = row.stats;
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << row.end
       << " s: " << stats.answered() << " requests, " << std::setprecision(0)
       << static_cast<double>(stats.answered()) / row.seconds << "/s, p50 "
       << TimeText(static_cast<double>(stats.latency.Percentile(0.5)))
       << ", p99 "
       << TimeText(static_cast<double>(stats.latency.Percentile(0.99))) << ", "
       << stats.failed() << " errors";
  return text.str();
}

std::string ToCsv(const ProgressRow& row) {
  const LoadStats& stats = row.stats;
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << row.end << ','
       << stats.answered() << ','
       << static_cast<double>(stats.answered()) / row.seconds << ','
       << Microseconds(stats.latency, 0.5) << ','
       << Microseconds(stats.latency, 0.99) << ',' << stats.failed();
  return text.str();
}

std::vector<std::string> ExceededLimits(const BenchFlags& flags,
                                        const LoadStats& total) {
  std::vector<std::string> messages;
  const auto p99 = static_cast<double>(total.latency.Percentile(0.99));
  if (flags.max_p99 && p99 > *flags.max_p99 * 1e9) {
    messages.push_back(StrCat("--max-p99: the 99th percentile of the latency, ",
                              TimeText(p99), ", exceeds the limit of ",
                              TimeText(*flags.max_p99 * 1e9)));
  }
  if (flags.max_errors && total.failed() > *flags.max_errors) {
    messages.push_back(StrCat("--max-errors: ", total.failed(),
                              " requests failed, more than the limit of ",
                              *flags.max_errors));
  }
  return messages;
}

}  // namespace topk::cli
