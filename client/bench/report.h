// The report of a load test, as text or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "client/bench/bench.h"
#include "client/bench/load.h"
#include "client/bench/request_template.h"

namespace topk::cli {

/// The load test to report on, which must have had at least one response.
struct BenchReport {
  const BenchFlags& flags;
  const std::vector<RequestTemplate>& kinds;
  const LoadResult& result;
};

/// Prints the request rate and each kind's latency percentiles.
void PrintText(const BenchReport& report, std::ostream& out);

/// Returns the report as JSON. Fields with "us" in their names are times in
/// microseconds.
nlohmann::ordered_json ToJson(const BenchReport& report);

}  // namespace topk::cli
