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

/// Formats a time with three significant digits, e.g. "1.25ms".
std::string TimeText(double nanoseconds);

}  // namespace topk::cli
