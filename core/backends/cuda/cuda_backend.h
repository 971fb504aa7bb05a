// The CUDA backend. It is ordinary C++ over the interface of device.h, so that
// everything except the devices themselves is tested on machines without a GPU.
#pragma once

#include <memory>
#include <vector>

#include "core/backends/backend.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/parts.h"

namespace topk {

/// Returns a backend that runs plans on some devices in turn. It declines what
/// is strided, and what the memory that it may have of a device cannot hold.
/// Pieces have about `piece_elements` elements; tests cut finer than pays.
/// REQUIRES: there is a device.
std::unique_ptr<Backend> MakeCudaBackend(
    std::vector<std::unique_ptr<cuda::Device>> devices,
    int64_t piece_elements = cuda::kPieceElements);

}  // namespace topk
