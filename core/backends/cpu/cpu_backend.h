// The CPU backend.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"

namespace topk {

/// Returns a backend that accepts every plan and runs it with one instruction
/// set on at most `threads` oneTBB threads, including the caller's. A task has
/// at least `task` nanoseconds of work. Tests pass a small `task` to split
/// small plans. REQUIRES: threads >= 1, and this machine supports the set.
std::unique_ptr<Backend> MakeCpuBackend(int threads,
                                        const cpu::InstructionSet& set,
                                        double task = cpu::kTaskNanoseconds);

}  // namespace topk
