// The report of a load test, as text or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "client/bench/bench.h"
#include "client/bench/load.h"
#include "client/bench/request_template.h"

namespace topk::cli {

/// The load test to report on, which must have had at least one response.
struct BenchReport {
  const BenchFlags& flags;
  const RequestTemplate& request;
  const LoadResult& result;
};

/// Prints the request rate and percentiles of the latency.
void PrintText(const BenchReport& report, std::ostream& out);

/// Returns the report as JSON. Fields with "us" in their names are times in
/// microseconds.
nlohmann::ordered_json ToJson(const BenchReport& report);

/// The stats of a part of a load test, e.g. one second.
struct ProgressRow {
  /// When the part ended, and how long it took, in seconds.
  double end;
  double seconds;
  const LoadStats& stats;
};

/// Returns a row as a line of text, and as a line of CSV.
std::string ToText(const ProgressRow& row);
std::string ToCsv(const ProgressRow& row);
inline constexpr char kCsvHeader[] =
    "seconds,requests,requests_per_second,p50_us,p99_us,errors";

/// Returns a message for each limit in the flags that `total` exceeds.
std::vector<std::string> ExceededLimits(const BenchFlags& flags,
                                        const LoadStats& total);

}  // namespace topk::cli
