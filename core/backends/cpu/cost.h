// The cost of a computation on the CPU.
#pragma once

#include "core/backends/cpu/chooser.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Returns the cost of a request. The working memory does not include stacks or
/// a few small vectors.
Cost CostOf(const Plan& plan, Arrival arrival, const Schedule& schedule);

/// Returns an upper bound on the CPU time of RunSchedule() with any schedule.
Size RunNanoseconds(const Plan& plan);

/// Returns the CPU time of one Feed() with `bytes` bytes. Includes the time to
/// process `buffered` elements and to finish slices.
Size FeedNanoseconds(const Plan& plan, Size buffered, Size bytes);

}  // namespace topk::cpu
