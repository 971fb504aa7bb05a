// The cost of a computation on the CPU.
#pragma once

#include "core/backends/cpu/chooser.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Returns the cost of RunSchedule(). The working memory does not include
/// stacks or a few small vectors.
Cost RunCost(const Plan& plan, const Schedule& schedule);

/// Returns an upper bound on the CPU time of RunSchedule() with any schedule.
Size RunNanoseconds(const Plan& plan);

/// Returns the cost of processing a whole tensor in chunks.
Cost FoldCost(const FoldPlan& fold);

/// Returns the CPU time of one Feed() with `bytes` bytes. Includes the time to
/// process `positions` buffered axis positions and to finish slices.
Size FeedNanoseconds(const Plan& plan, int64_t positions, Size bytes);

}  // namespace topk::cpu
