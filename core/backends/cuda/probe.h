// Checks that a device works, and measures its speeds.
#pragma once

#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/device.h"
#include "topk/status.h"

namespace topk::cuda {

/// Runs a small request on a device. Returns the error if the device cannot run
/// this program's kernels, for example because the program has no code for the
/// device's architecture.
Status Probe(Device& device);

/// Measures the speeds of a device, which takes about 20 ms. Returns an error
/// if the device has too little memory, or fails.
Result<Speeds> MeasureSpeeds(Device& device);

}  // namespace topk::cuda
