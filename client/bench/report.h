// What came of a load, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "client/bench/flags.h"
#include "client/bench/load.h"
#include "client/bench/request_template.h"

namespace topk::cli {

/// What a report tells of. REQUIRES: the flags, kinds and result of one load
/// that had an answer.
struct BenchReport {
  const BenchFlags& flags;
  const std::vector<RequestTemplate>& kinds;
  const LoadResult& result;
};

/// Prints rate, percentiles for each kind and a plot, at most `columns` wide.
void PrintText(const BenchReport& report, int columns, std::ostream& out);

/// Returns all of it; times are in microseconds where their names say "us".
nlohmann::ordered_json ToJson(const BenchReport& report);

}  // namespace topk::cli
