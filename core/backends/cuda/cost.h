// The cost of a plan on a device, which decides whether the device is used.
#pragma once

#include <cstdint>

#include "core/plan/plan.h"

namespace topk::cuda {

/// Returns roughly how many nanoseconds the backend takes for a tensor that is
/// in the host's memory. A pure function of the shape: what copying to the
/// device and back takes, or computing there if that is more.
/// REQUIRES: plan.input.bytes > 0.
int64_t EstimateNanoseconds(const Plan& plan, int64_t rows_per_piece);

}  // namespace topk::cuda
