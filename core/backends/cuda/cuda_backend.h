// The CUDA backend. It is plain C++ on top of the interface in device.h, so
// everything except the devices can be tested without a GPU.
#pragma once

#include <memory>
#include <vector>

#include "core/backends/backend.h"
#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/device.h"

namespace topk {

/// Returns a backend that uses the devices round-robin. Copies tensors in
/// chunks of whole batches, of about `chunk_bytes` bytes if batches are small.
/// Rejects strided tensors, plans that no device has enough memory for, and
/// streams that need the memory of many chunks. Estimates times from `speeds`.
/// REQUIRES: !devices.empty().
std::unique_ptr<Backend> MakeCudaBackend(
    std::vector<std::unique_ptr<cuda::Device>> devices,
    int64_t chunk_bytes = cuda::kChunkBytes, const cuda::Speeds& speeds = {});

}  // namespace topk
