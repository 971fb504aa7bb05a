// A selection over a packed tensor that arrives in pieces, on a device.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cuda/device.h"

namespace topk::cuda {

/// Returns the fold of PreparedPlan::StartFold: copies the tensor to the
/// device, in pieces of `rows_per_piece` rows, each while the previous one is
/// computed, keeps the best k of each slice there, and copies the results of
/// finished slices back. `architecture` is the device's, and outlives the fold.
/// Its Finish() says UNAVAILABLE or RESOURCE_EXHAUSTED where the device failed:
/// the outputs hold anything then.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               std::unique_ptr<Lane> lane,
                               int64_t rows_per_piece,
                               std::string_view architecture,
                               const Cancellation* cancellation);

}  // namespace topk::cuda
