// Finds the CUDA devices of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backends/cuda/device.h"
#include "topk/status.h"

namespace topk::cuda {

/// Returns INVALID_ARGUMENT if this machine has no driver, a driver that is too
/// old, or no device that the backend supports.
Status CheckDevices();

/// Returns the supported devices of this machine. A device is initialized on
/// first use. `memory_bytes` is the memory limit of each device, or 0 for half
/// of its memory.
std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes);

}  // namespace topk::cuda
