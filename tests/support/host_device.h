// A simulated CUDA device, which runs tasks with std::sort in host memory.
// Tests the CUDA backend, except CUB and the CUDA runtime, on any machine.
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
  /// The number of calls until a call runs out of memory. Negative = never.
  int64_t calls_until_full = -1;
};

/// Returns a simulated device. Aborts if a task accesses memory that it did not
/// declare, if memory outlives the Lane that allocated it, or if a Lane exceeds
/// its reservation.
std::unique_ptr<cuda::Device> MakeHostDevice(
    const HostDeviceOptions& options = {});

}  // namespace topk::testing
