// Between plans and messages: the payload of a request, the tensors of an
// answer.
#pragma once

#include <cstdint>
#include <string>

#include "core/backends/backend.h"
#include "core/base/status.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// OK if `bytes` is the length of data that the plan's input has (DirectML:
/// with or without the padding to 4); otherwise INVALID_ARGUMENT naming both.
Status CheckPayload(const Plan& plan, int64_t bytes);

/// Returns the request's data after CheckPayload. UNIMPLEMENTED for shared
/// memory.
Result<std::span<const std::byte>> Payload(const v1::Tensor& tensor,
                                           const Plan& plan);

/// Fills in the response's tensors, their data zeroed, and returns where the
/// answer goes. The response must not move meanwhile.
Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response);

/// Says how the answer was computed.
void SetExecution(const Execution& execution, int64_t nanoseconds,
                  v1::TopKResponse& response);

}  // namespace topk
