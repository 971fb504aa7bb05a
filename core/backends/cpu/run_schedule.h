// Runs a plan according to a schedule.
#pragma once

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/base/cancellation.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Computes the outputs, with oneTBB tasks unless schedule.run_inline.
/// `outputs` and `cancellation` are those of PreparedPlan::Run(). REQUIRES:
/// CanRun(schedule.algorithm, plan).
void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs,
                 const Cancellation* cancellation = nullptr);

}  // namespace topk::cpu
