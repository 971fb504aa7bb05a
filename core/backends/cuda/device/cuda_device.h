// The devices of this machine, by the CUDA runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backends/cuda/device.h"
#include "core/base/status.h"

namespace topk::cuda {

/// OK, or INVALID_ARGUMENT: this machine has no driver or no device, with the
/// runtime's words for it.
Status CheckDevices();

/// Returns this machine's devices; those that cannot be used are left out.
/// `memory_bytes` is what lanes may have of each, 0 for half of its memory.
std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes);

}  // namespace topk::cuda
