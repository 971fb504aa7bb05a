// Checks that a device works.
#pragma once

#include "core/backends/cuda/device.h"
#include "topk/status.h"

namespace topk::cuda {

/// Runs a small request on a device. Returns the error if the device cannot run
/// this program's kernels, for example because the program has no code for the
/// device's architecture.
Status Probe(Device& device);

}  // namespace topk::cuda
