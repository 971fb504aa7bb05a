// A selection on a device over a contiguous tensor that arrives in chunks.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cuda/device.h"

namespace topk::cuda {

/// Implements PreparedPlan::StartFold(). Copies the tensor to the device in
/// chunks of `chunk_positions` positions, computes a chunk while the next one
/// is copied, keeps the best k of each unfinished slice on the device, and
/// copies the results of finished slices back. `architecture` is the device's
/// architecture and must outlive the fold. The status of Finish() is the lane's
/// status.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               std::unique_ptr<Lane> lane,
                               int64_t chunk_positions,
                               std::string_view architecture,
                               const Cancellation* cancellation);

}  // namespace topk::cuda
