// A selection over a packed tensor that arrives in pieces.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/run.h"

namespace topk::cpu {

/// Returns the fold of PreparedPlan::StartFold. Each slice is written with its
/// last element. The memory of a fold does not depend on the length of the
/// tensor. The resources must outlive the fold's calls; the fold may be
/// destroyed after them.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               Resources& resources,
                               const Cancellation* cancellation);

/// Upper bound on the memory of a fold, in bytes.
Size FoldBytes(const Plan& plan, int threads, double task);

}  // namespace topk::cpu
