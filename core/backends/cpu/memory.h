// What a computation takes beyond its tensor and its answer.
#pragma once

#include <cstdint>

#include "core/backends/cpu/chooser.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Returns an upper bound, in bytes, of what RunChoice() takes on `threads`
/// threads. What a few small vectors and the stacks take is left out.
int64_t RunBytes(const Plan& plan, const Choice& choice, int threads);

/// The same, of a fold.
int64_t FoldBytes(const Plan& plan);

}  // namespace topk::cpu
