// Runs plans on backends, without a request, and computes reference results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/plan/plan.h"
#include "tests/support/compute.h"

namespace topk::testing {

/// The bytes of a result, and the kernel that computed it.
struct Answer {
  std::string values;
  std::string indices;
  std::string kernel;

  /// Ignores the kernel.
  bool operator==(const Answer& other) const {
    return values == other.values && indices == other.indices;
  }
};

/// Returns a request for a contiguous tensor, with I64 indices.
PlanRequest Ask(DType dtype, std::vector<int64_t> shape, int64_t axis,
                int64_t k);

/// Returns the plan of a request. Throws std::runtime_error if it is invalid.
Plan ValidPlan(const PlanRequest& request);

Answer RunPlan(const Backend& backend, const Plan& plan,
               const std::string& tensor,
               const Cancellation* cancellation = nullptr);

Answer FoldPlan(const Backend& backend, const Plan& plan,
                const std::string& tensor, const NextPiece& next,
                const Cancellation* cancellation = nullptr);

/// Returns the expected result. Sorts every slice by the values of its elements
/// and shares only the plan with core/.
Answer SlowAnswer(const Plan& plan, const std::string& tensor);

/// Returns `count` elements of random bits. If `distinct` > 0, uses only the
/// bits 0 .. distinct - 1, so that most elements tie.
std::string SomeData(DType dtype, int64_t count, uint64_t seed,
                     uint64_t distinct = 0);

}  // namespace topk::testing
