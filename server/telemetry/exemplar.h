// Links from the buckets of histograms to traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace topk {

/// An observation of a sampled call.
struct Exemplar {
  /// The ids of the call's trace and span; see TraceContext.
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  uint64_t span = 0;
  /// In the unit that is exposed.
  double value = 0;
  std::chrono::system_clock::time_point time{};
};

/// The last exemplar of each bucket of a series, the one of +Inf included.
using BucketExemplars = std::vector<std::optional<Exemplar>>;

/// Those of the series of each family of histograms, in their order.
using Exemplars = std::map<std::string, std::vector<BucketExemplars>>;

}  // namespace topk
