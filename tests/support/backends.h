// All backends that can run on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"

namespace topk::testing {

/// Returns all backends that can run on this machine: the CPU backend once
/// per instruction set, an EagerBackend() and, in a build without CUDA, a
/// FakeCudaBackend() with chunks of a few bytes.
std::vector<std::unique_ptr<Backend>> AllBackends(int threads);

/// Returns a CPU backend that splits work into far too many pieces.
std::unique_ptr<Backend> EagerBackend(int threads);

#ifndef TOPK_WITH_CUDA
/// Returns the CUDA backend on the simulated runtime (cuda/fake_runtime.h).
std::unique_ptr<Backend> FakeCudaBackend(int64_t chunk_bytes);
#endif

/// Returns the backend's name and instruction set, for messages.
std::string Describe(const Backend& backend);

}  // namespace topk::testing
