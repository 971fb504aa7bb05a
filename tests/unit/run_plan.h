// Plans without a request: run one on a backend, and the slow right answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/plan/plan.h"

namespace topk::testing {

/// The bytes of an answer, and the kernel that made them.
struct Answer {
  std::string values;
  std::string indices;
  std::string kernel;

  /// The answer does not contain the kernel.
  bool operator==(const Answer& other) const {
    return values == other.values && indices == other.indices;
  }
};

/// Returns a request for a packed tensor, with I64 indices.
PlanRequest Ask(DType dtype, std::vector<int64_t> shape, int64_t axis,
                int64_t k);

/// Returns the request's plan. Throws std::runtime_error if it is not valid.
Plan ValidPlan(const PlanRequest& request);

/// Runs a plan on the whole tensor.
Answer RunPlan(const Backend& backend, const Plan& plan,
               const std::string& tensor);

/// Folds a plan over the tensor in pieces. `next` returns the length of each;
/// the last piece is the remainder.
Answer FoldPlan(const Backend& backend, const Plan& plan,
                const std::string& tensor, const std::function<size_t()>& next);

/// The right answer, from the meaning of the elements: it sorts every slice and
/// shares no code with core/ but the plan.
Answer SlowAnswer(const Plan& plan, const std::string& tensor);

/// Returns `count` elements of random bits; with `distinct` > 0 the elements
/// are the bits 0 .. distinct - 1 alone, so that most of them tie.
std::string SomeData(DType dtype, int64_t count, uint64_t seed,
                     uint64_t distinct = 0);

}  // namespace topk::testing
