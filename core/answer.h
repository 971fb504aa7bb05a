// Checks that a request's data has the length that the plan requires, and
// prepares the response message.
#pragma once

#include <cstdint>

#include "core/backends/backend.h"
#include "core/base/cancellation.h"
#include "core/plan/plan.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns OK if `plan` allows an input with `bytes` bytes of data. Otherwise,
/// returns INVALID_ARGUMENT with the actual and the expected length.
Status CheckPayload(const Plan& plan, int64_t bytes);

/// The outputs that are written to device memory.
struct OutputsOnDevice {
  bool values = false;
  bool indices = false;
};

/// Allocates zeroed output tensors in `response`, and returns them for writing.
/// Does not allocate the data of outputs on a device.
/// `response` must not be moved before the tensors are written. After a
/// cancellation, the tensors may be too short and must not be used.
Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response,
                       const Cancellation* cancellation = nullptr,
                       OutputsOnDevice on_device = {});

}  // namespace topk
