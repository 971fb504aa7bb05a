// Which backends were built in, and which of them are used.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/backends/backend.h"
#include "core/base/status.h"

namespace topk {

/// Names the instruction set that the CPU backend is to use, for tests and
/// measurements; unset or empty: the best that the machine has.
inline constexpr char kInstructionSetVariable[] = "TOPK_INSTRUCTION_SET";

/// Which backends may run a plan.
enum class BackendChoice {
  /// Whichever is expected to take the least time for it.
  kAuto,
  /// The CPU alone.
  kCpu,
  /// CUDA for all that it takes, the CPU for the rest.
  kCuda,
};

/// Returns the choice of this name, "auto", "cpu" or "cuda"; kAuto for others.
BackendChoice BackendChoiceOf(std::string_view name);

/// What an operator may say of the backends.
struct BackendOptions {
  BackendChoice choice = BackendChoice::kAuto;
  /// What a process may have of each device's memory, in bytes; 0 = half of it.
  int64_t device_memory_bytes = 0;
};

/// OK, or why this process must not start. INVALID_ARGUMENT: the variable names
/// an instruction set that is unknown or that this machine cannot run; or CUDA
/// is chosen, and was not built in or has no device.
Status CheckEnvironment(const BackendOptions& options = {});

/// Returns the backends in the order in which they are tried; the last accepts
/// every plan. `threads` >= 1 bounds the threads of each.
/// REQUIRES: CheckEnvironment(options) is OK.
std::vector<std::unique_ptr<Backend>> MakeBackends(
    int threads, const BackendOptions& options = {});

}  // namespace topk
