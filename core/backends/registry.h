// The backends, and the selection of those that are used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/base/status.h"

namespace topk {

/// Names the instruction set that the CPU backend is to use, for tests and
/// measurements; unset or empty: the best that the machine has.
inline constexpr char kInstructionSetVariable[] = "TOPK_INSTRUCTION_SET";

/// Any backend: the one with the lowest estimated time for a plan.
inline constexpr char kAutoBackend[] = "auto";

/// The names of all backends, also of those that were not built in, in the
/// order in which they are tried. The last accepts every plan.
std::vector<std::string> BackendNames();

/// An operator's choice.
struct BackendOptions {
  /// kAutoBackend, or the name of a backend: it runs every plan that it
  /// supports, and the last one the rest.
  std::string choice = kAutoBackend;
  /// Max memory to use on each device, in bytes; 0 = half of it.
  int64_t device_memory_bytes = 0;
};

/// OK, or why this process must not start. INVALID_ARGUMENT: the variable names
/// an instruction set that is unknown or that this machine cannot run; or the
/// chosen backend was not built in or has no device.
Status CheckEnvironment(const BackendOptions& options = {});

/// Returns the backends in the order in which they are tried; the last accepts
/// every plan. `threads` >= 1 bounds the threads of each.
/// REQUIRES: CheckEnvironment(options) is OK.
std::vector<std::unique_ptr<Backend>> MakeBackends(
    int threads, const BackendOptions& options = {});

}  // namespace topk
