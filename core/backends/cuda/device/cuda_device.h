// Finds the CUDA devices of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/cuda/device.h"

namespace topk::cuda {

struct DeviceOptions {
  /// The memory limit of each device in bytes, or 0 for half of its memory.
  int64_t memory_bytes = 0;
  /// The maximum number of threads that copy from and to host memory.
  int threads = 1;
};

/// Returns the devices of this machine that can run the kernels. Takes a
/// second, because it initializes each device and runs a kernel. Appends to
/// `errors` why devices are not used, or why there is no device.
std::vector<std::unique_ptr<Device>> OpenDevices(
    const DeviceOptions& options, std::vector<std::string>& errors);

}  // namespace topk::cuda
