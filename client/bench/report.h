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

/// Returns a row of CSV with the stats of a part of a load test, e.g. one
/// second. `end` is when the part ended, and `seconds` how long it took.
std::string CsvRow(double end, double seconds, const LoadStats& stats);
inline constexpr char kCsvHeader[] =
    "seconds,requests,requests_per_second,p50_us,p99_us,errors";

/// Formats a time with three significant digits, e.g. "1.25ms".
std::string TimeText(double nanoseconds);

}  // namespace topk::cli
