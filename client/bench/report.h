// The report of a load test, as text or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "client/bench/load.h"

namespace topk::cli {

/// Prints the request rate and percentiles of the latency. REQUIRES: the load
/// test had at least one response or failure.
void PrintText(const LoadResult& result, std::ostream& out);

/// Returns the report as JSON. Fields with "us" in their names are times in
/// microseconds.
nlohmann::ordered_json ToJson(const LoadResult& result);

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

/// Formats a time with three significant digits, e.g. "1.25ms".
std::string TimeText(double nanoseconds);

}  // namespace topk::cli
