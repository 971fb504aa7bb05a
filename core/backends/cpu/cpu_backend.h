// The CPU backend.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"

namespace topk {
namespace cpu {

/// Computes the outputs. Uses oneTBB tasks if schedule.threads > 1. For
/// `outputs` and `cancellation`, see PreparedPlan::Run(). REQUIRES:
/// CanRun(schedule.algorithm, plan), and the plan has slices.
void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs,
                 const Cancellation* cancellation = nullptr);

}  // namespace cpu

/// Returns a backend that runs every plan with the instruction set `set`. Uses
/// at most `threads` oneTBB threads, including the calling thread. A task has
/// at least `task` nanoseconds of work. Tests pass a small `task` to split
/// small plans. REQUIRES: threads >= 1, and this machine supports `set`.
std::unique_ptr<Backend> MakeCpuBackend(int threads,
                                        const cpu::InstructionSet& set,
                                        double task = cpu::kTaskNanoseconds);

}  // namespace topk
