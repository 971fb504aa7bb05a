// A simulated device of the CUDA backend: host memory, with std::sort for the
// device's tasks. The whole backend except CUB and the CUDA runtime runs on it,
// on any machine.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backends/cuda/device.h"

namespace topk::testing {

/// How such a device behaves.
struct HostDeviceOptions {
  int64_t memory_limit = int64_t{1} << 30;
  /// The number of calls of it and its lanes until it is lost; < 0 = never.
  int64_t calls_until_lost = -1;
  /// The number of calls until one fails for lack of memory; < 0 = never.
  int64_t calls_until_full = -1;
};

/// Returns such a device. It aborts on what a GPU would not survive: a task
/// that reaches beyond the memories which it says that it uses, memory that
/// outlives its lane, lanes that have more than they were opened for. Where
/// the order of what is kept is left open, it is an odd one.
std::unique_ptr<cuda::Device> MakeHostDevice(
    const HostDeviceOptions& options = {});

}  // namespace topk::testing
