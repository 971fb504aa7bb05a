// Reads workloads from workloads.cases and generates their data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/plan/plan.h"

namespace topk::bench {

/// A line of workloads.cases.
struct Workload {
  std::string name;
  PlanRequest request;
  /// "normal", "ascending", "constant" or "zeros".
  std::string data;

  /// Throws std::runtime_error if the request is invalid.
  Plan plan() const;
};

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

/// Parses a line. Throws std::runtime_error if the line is malformed.
Workload ParseWorkload(const std::string& line);

/// Reads a file of workloads. Throws std::runtime_error if a line is malformed
/// or the file has no workloads.
std::vector<Workload> ReadWorkloads(const std::string& path);

/// Returns the tensor of a workload. The same seed yields the same tensor.
std::vector<std::byte> MakeData(const Workload& workload, uint64_t seed);

}  // namespace topk::bench
