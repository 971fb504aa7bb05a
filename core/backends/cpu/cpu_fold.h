// A selection over a contiguous tensor that arrives in chunks.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/run.h"

namespace topk::cpu {

/// Implements PreparedPlan::StartFold(). Each slice is written when its last
/// element arrives. The memory of a fold does not depend on the length of the
/// tensor. `resources` must outlive all calls to the fold, but not its
/// destructor.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               Resources& resources,
                               const Cancellation* cancellation);

/// Returns an upper bound on the memory of a fold, in bytes.
Size FoldBytes(const Plan& plan, int threads, double task);

}  // namespace topk::cpu
