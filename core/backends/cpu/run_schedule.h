// Runs a plan the way that was chosen.
#pragma once

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/base/cancellation.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Computes the whole answer, with tasks for oneTBB if the schedule is not to
/// stay on this thread. REQUIRES: CanRun(schedule.algorithm, plan); the outputs
/// and the cancellation as PreparedPlan::Run has them.
void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs,
                 const Cancellation* cancellation = nullptr);

}  // namespace topk::cpu
