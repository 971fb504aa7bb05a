// Lists the backends, and creates the chosen ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "topk/status.h"

namespace topk {

/// The environment variable that sets the instruction set of the CPU backend,
/// for tests and measurements. If the variable is unset or empty, the backend
/// uses the best set that the machine supports.
inline constexpr char kInstructionSetVariable[] = "TOPK_INSTRUCTION_SET";

/// Selects, for each plan, the backend with the lowest time estimate.
inline constexpr char kAutoBackend[] = "auto";

/// Returns the names of all backends, in the order in which they are tried.
/// Includes backends that are not compiled into this binary. The last backend
/// accepts every plan.
std::vector<std::string> BackendNames();

/// Options for CheckEnvironment() and MakeBackends().
struct BackendOptions {
  /// kAutoBackend, or the name of a backend, which then runs every plan that it
  /// supports. The CPU backend runs the other plans.
  std::string choice = kAutoBackend;
  /// The maximum memory to use on each device, in bytes. 0 means half of the
  /// memory of the device.
  int64_t device_memory_bytes = 0;
  /// Called with the reason if a device or a backend is not used at start, and
  /// each time a request falls back to the CPU. May be empty. Thread-safe.
  std::function<void(const std::string& message)> log = {};
  /// Called at start with the speeds of a device. May be empty.
  std::function<void(const std::string& message)> inform = {};
};

/// Returns INVALID_ARGUMENT if the variable TOPK_INSTRUCTION_SET names an
/// unknown or unsupported instruction set, or if the chosen backend was not
/// built in or has no device. In this case, the process must not start.
Status CheckEnvironment(const BackendOptions& options = {});

/// Returns the backends in the order in which they are tried. The last backend
/// accepts every plan. `threads` >= 1 is the maximum number of threads of each
/// backend. REQUIRES: CheckEnvironment(options) is OK.
std::vector<std::unique_ptr<Backend>> MakeBackends(
    int threads, const BackendOptions& options = {});

}  // namespace topk
