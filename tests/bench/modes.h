// The worker mode of topk_bench, and what all modes share.
#pragma once

#include <vector>

#include "core/backends/backend.h"
#include "tests/bench/workload.h"

namespace topk::bench {

/// Runs commands from peers.py: reads lines of JSON from stdin and writes a
/// line to stdout for each. Returns the exit status.
int Work(int threads);

/// The output buffers of a plan.
struct Answer {
  explicit Answer(const Plan& plan)
      : values(static_cast<size_t>(plan.values.bytes)),
        indices(static_cast<size_t>(plan.indices.bytes)) {}
  Outputs outputs() { return {values, indices}; }
  bool operator==(const Answer&) const = default;

  std::vector<std::byte> values;
  std::vector<std::byte> indices;
};

}  // namespace topk::bench
