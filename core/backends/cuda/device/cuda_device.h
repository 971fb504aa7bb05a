// Finds the CUDA devices of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backends/cuda/device.h"
#include "core/base/status.h"

namespace topk::cuda {

/// Returns INVALID_ARGUMENT if this machine has no driver, a driver that is too
/// old, or no device that the backend supports.
Status CheckDevices();

/// Returns the devices of this machine that the backend supports. A device is
/// initialized when its first lane opens. `memory_bytes` is the memory limit of
/// each device. If it is 0, the limit is half of the device's memory.
std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes);

}  // namespace topk::cuda
