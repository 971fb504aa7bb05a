// The lines of workloads.cases.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace topk::bench {

/// One line.
struct Workload {
  std::string name;
  PlanRequest request;
  /// "normal", "ascending", "constant" or "zeros".
  std::string data;

  /// Throws std::runtime_error if the line asks for what no plan has.
  Plan plan() const;
};

/// Reads a line. Throws std::runtime_error if it cannot be read.
Workload ParseWorkload(const std::string& line);

/// Reads a file of workloads. Throws std::runtime_error, with the line, if one
/// cannot be read or the file has no workloads.
std::vector<Workload> ReadWorkloads(const std::string& path);

/// Returns the tensor of a workload: the same for the same seed.
std::vector<std::byte> MakeData(const Workload& workload, uint64_t seed);

}  // namespace topk::bench
