// All backends that can run on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"

namespace topk::testing {

/// Returns all backends that can run on this machine: the CUDA backend on a
/// simulated device (host_device.h) with chunks of a few elements, the CPU
/// backend once per instruction set, and an EagerBackend().
std::vector<std::unique_ptr<Backend>> AllBackends(int threads);

/// Returns a CPU backend that splits work into far too many pieces.
std::unique_ptr<Backend> EagerBackend(int threads);

/// Returns the CUDA backend on a simulated device.
std::unique_ptr<Backend> HostCudaBackend(int64_t chunk_elements);

/// Returns the backend's name and instruction set, for messages.
std::string Describe(const Backend& backend);

}  // namespace topk::testing
