// Between plans and messages: the length of a request's data, the tensors of an
// answer.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/backends/backend.h"
#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns INVALID_ARGUMENT, which names both lengths, unless `bytes` is one of
/// the lengths that the data of the plan's input may have.
Status CheckPayload(const Plan& plan, int64_t bytes);

/// Allocates the response's tensors, filled with zeros, and returns the outputs
/// to write to. The response must not be moved until they are written. If
/// cancelled (null = never), the outputs are too short to be used.
Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response,
                       const Cancellation* cancellation = nullptr);

/// Destroys an answer that nobody waits for, without waiting for it.
void Discard(const Plan& plan, v1::TopKResponse response);

/// Sets the response's ExecutionInfo.
void SetExecution(const Execution& execution, std::chrono::nanoseconds duration,
                  v1::TopKResponse& response);

}  // namespace topk
