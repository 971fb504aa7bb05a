// Every way to compute that this machine has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"

namespace topk::testing {

/// Returns the backends that can run on this machine, the CUDA backend on a
/// simulated device (host_device.h) with pieces of a few elements, and the CPU
/// backend once for each instruction set of the machine and once with many more
/// pieces than are efficient.
std::vector<std::unique_ptr<Backend>> AllBackends(int threads);

/// Returns the last of these.
std::unique_ptr<Backend> EagerBackend(int threads);

/// Returns the CUDA backend on that device.
std::unique_ptr<Backend> HostCudaBackend(int64_t chunk_elements);

/// Returns a backend's name with its instruction set, for messages.
std::string Describe(const Backend& backend);

}  // namespace topk::testing
