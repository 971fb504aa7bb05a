// The CPU backend.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"

namespace topk {
namespace cpu {

/// Computes the outputs, with oneTBB tasks unless schedule.run_inline. See
/// PreparedPlan::Run() for `outputs` and `cancellation`. REQUIRES:
/// CanRun(schedule.algorithm, plan).
void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs,
                 const Cancellation* cancellation = nullptr);

}  // namespace cpu

/// Returns a backend that accepts every plan and runs it with one instruction
/// set on at most `threads` oneTBB threads, including the caller's. A task has
/// at least `task` nanoseconds of work. Tests pass a small `task` to split
/// small plans. REQUIRES: threads >= 1, and this machine supports `set`.
std::unique_ptr<Backend> MakeCpuBackend(int threads,
                                        const cpu::InstructionSet& set,
                                        double task = cpu::kTaskNanoseconds);

}  // namespace topk
