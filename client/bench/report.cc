#include "client/bench/report.h"

#include <cmath>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

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

double Bytes(const BenchReport& report) {
  double bytes = 0;
  for (size_t i = 0; i < report.kinds.size(); ++i) {
    bytes += static_cast<double>(report.result.stats[i].answered()) *
             static_cast<double>(report.kinds[i].request_bytes);
  }
  return bytes;
}

double Microseconds(const Histogram& times, double share) {
  return static_cast<double>(times.Percentile(share)) / 1e3;
}

void AddStats(const LoadStats& stats, OrderedJson& json) {
  json["mean_us"] = stats.latency.mean() / 1e3;
  for (const Column& column : kPercentiles) {
    json[column.key] = Microseconds(stats.latency, column.share);
  }
  json["compute_mean_us"] = stats.compute.mean() / 1e3;
  json["compute_p50_us"] = Microseconds(stats.compute, 0.5);
  json["compute_p99_us"] = Microseconds(stats.compute, 0.99);
  json["verified"] = stats.verified;
  json["errors"] = stats.errors;
  json["not_connected"] = stats.not_connected;
  json["lost"] = stats.lost;
  json["retry_hints"] = stats.retry_hints;
  json["retried"] = stats.retried;
}

void PrintTimes(int64_t requests, const Histogram& times,
                const std::string& name, std::ostream& out) {
  out << std::setw(8) << requests << std::setw(7) << TimeText(times.mean());
  for (const Column& column : kPercentiles) {
    out << std::setw(7)
        << TimeText(static_cast<double>(times.Percentile(column.share)));
  }
  out << "  " << name << "\n";
}

void PrintRow(const LoadStats& stats, const std::string& name,
              std::ostream& out) {
  PrintTimes(stats.answered(), stats.latency, name, out);
  PrintTimes(stats.answered(), stats.compute, "  computing", out);
}

void PrintLoad(const BenchFlags& flags, std::ostream& out) {
  const LoadProfile& profile = flags.profile;
  out << flags.path;
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
  const LoadStats total = result.Total();
  out << std::defaultfloat << std::setprecision(6);
  PrintLoad(report.flags, out);
  const double rate = static_cast<double>(total.answered()) / result.seconds;
  out << std::fixed << total.answered() << " requests in "
      << std::setprecision(2) << result.seconds
      << " s: " << std::setprecision(rate < 100 ? 2 : 0) << rate
      << " requests/s, " << std::setprecision(3)
      << Bytes(report) / result.seconds / 1e9 << " GB/s; " << total.verified
      << " verified\n";
  if (result.interrupted) out << "interrupted: the load ended early\n";
  if (!result.kept_up) {
    out << "the callers could not keep up: " << result.missed
        << " due requests were not sent; at the end, requests were "
        << TimeText(result.lag * 1e9) << " late\n";
  }
  for (const auto& [code, count] : total.errors) {
    out << count << " requests failed: " << code << "\n";
  }
  for (const auto& [count, text] :
       {std::pair(total.not_connected,
                  "were not sent: there was no connection"),
        std::pair(total.lost, "were lost: their connection broke"),
        std::pair(total.retry_hints, "received a retry delay")}) {
    if (count > 0) out << count << " of them " << text << "\n";
  }
  if (total.retried > 0) {
    out << total.retried << " requests needed several attempts\n";
  }
  out << "\nrequests   mean";
  for (const Column& column : kPercentiles) out << std::setw(7) << column.name;
  out << "\n";
  if (report.kinds.size() > 1) {
    for (size_t i = 0; i < report.kinds.size(); ++i) {
      PrintRow(result.stats[i], report.kinds[i].name, out);
    }
    PrintRow(total, "all", out);
  } else {
    PrintRow(total, report.kinds.front().name, out);
  }
}

OrderedJson ToJson(const BenchReport& report) {
  const BenchFlags& flags = report.flags;
  const LoadResult& result = report.result;
  const LoadStats total = result.Total();
  const auto answered = static_cast<double>(total.answered());
  const double mean_bytes = answered > 0 ? Bytes(report) / answered : 0;
  OrderedJson json = {
      {"path", flags.path},
      {"requests", total.answered()},
      {"concurrency", flags.concurrency},
      {"connections", flags.connections},
      {"batch", flags.profile.batch},
      {"seed", flags.profile.seed},
      {"seconds", result.seconds},
      {"interrupted", result.interrupted},
      {"request_bytes", std::llround(mean_bytes)},
      {"requests_per_second", answered / result.seconds},
      {"gigabytes_per_second", Bytes(report) / result.seconds / 1e9},
      {"rate", nullptr}};
  if (flags.profile.rate > 0) {
    json["rate"] = flags.profile.rate;
    json["arrivals"] = flags.profile.poisson ? "poisson" : "constant";
    json["kept_up"] = result.kept_up;
    json["missed"] = result.missed;
    json["lag_us"] = result.lag * 1e6;
  }
  AddStats(total, json);
  json["kinds"] = OrderedJson::array();
  for (size_t i = 0; i < report.kinds.size(); ++i) {
    const RequestTemplate& kind = report.kinds[i];
    OrderedJson row = {{"name", kind.name},
                       {"weight", kind.weight},
                       {"requests", result.stats[i].answered()},
                       {"request_bytes", kind.request_bytes}};
    AddStats(result.stats[i], row);
    json["kinds"].push_back(std::move(row));
  }
  json["histogram"] = OrderedJson::array();
  for (const Histogram::Step& step : total.latency.Steps()) {
    json["histogram"].push_back(
        {{"from_us", static_cast<double>(step.low) / 1e3},
         {"to_us", static_cast<double>(step.high) / 1e3},
         {"count", step.count}});
  }
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
