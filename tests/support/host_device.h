// A simulated CUDA device. It uses host memory and runs the device's tasks with
// std::sort, so that all of the CUDA backend except CUB and the CUDA runtime
// can be tested on any machine.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backends/cuda/device.h"

namespace topk::testing {

/// Options for a simulated device.
struct HostDeviceOptions {
  int64_t memory_limit = int64_t{1} << 30;
  /// The number of calls until the device is lost. Negative = never.
  int64_t calls_until_lost = -1;
  /// The number of calls before one runs out of memory. Negative = never.
  int64_t calls_until_full = -1;
};

/// Returns a simulated device. Aborts on errors that a GPU would not survive: a
/// task that accesses memory it did not declare, memory that outlives its lane,
/// or a lane that uses more than it reserved. If the order of the kept elements
/// is unspecified, the device returns an unusual order.
std::unique_ptr<cuda::Device> MakeHostDevice(
    const HostDeviceOptions& options = {});

}  // namespace topk::testing
