// Runs a plan the way that was chosen.
#pragma once

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/base/cancellation.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Computes the whole answer, with tasks for oneTBB if the choice is not to
/// stay on this thread. REQUIRES: CanRun(choice.algorithm, plan); the outputs
/// and the cancellation as PreparedPlan::Run has them.
void RunChoice(const Plan& plan, const Choice& choice,
               const InstructionSet& set, const std::byte* tensor,
               const Outputs& outputs,
               const Cancellation* cancellation = nullptr);

}  // namespace topk::cpu
