// The report of a load, as text or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "client/bench/flags.h"
#include "client/bench/load.h"
#include "client/bench/request_template.h"

namespace topk::cli {

/// The input of a report. REQUIRES: the flags, kinds and result of one load
/// with at least one response.
struct BenchReport {
  const BenchFlags& flags;
  const std::vector<RequestTemplate>& kinds;
  const LoadResult& result;
};

/// Prints the rate, and the percentiles of each kind, at most `columns` wide.
void PrintText(const BenchReport& report, int columns, std::ostream& out);

/// Returns the whole report. Times are in microseconds if their names contain
/// "us".
nlohmann::ordered_json ToJson(const BenchReport& report);

}  // namespace topk::cli
