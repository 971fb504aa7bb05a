// Which backends were built in.
#pragma once

#include <memory>
#include <vector>

#include "core/backends/backend.h"
#include "core/base/status.h"

namespace topk {

/// Names the instruction set that the CPU backend is to use, for tests and
/// measurements; unset or empty: the best that the machine has.
inline constexpr char kInstructionSetVariable[] = "TOPK_INSTRUCTION_SET";

/// OK, or why this process must not start: INVALID_ARGUMENT if the variable
/// names an instruction set that is unknown or that this machine cannot run.
Status CheckEnvironment();

/// Returns the backends in the order in which they are tried; the last accepts
/// every plan. `threads` >= 1 bounds the threads of each.
/// REQUIRES: CheckEnvironment() is OK.
std::vector<std::unique_ptr<Backend>> MakeBackends(int threads);

}  // namespace topk
