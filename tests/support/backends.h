// All backends that can run on this machine.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/registry.h"
#ifndef TOPK_WITH_CUDA
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#endif

namespace topk::testing {

/// Returns a CPU backend that splits work into far too many pieces.
inline std::unique_ptr<Backend> EagerBackend(int threads) {
  constexpr double kNanoseconds = 50;
  return MakeCpuBackend(threads, cpu::SupportedInstructionSets().front(),
                        kNanoseconds);
}

#ifndef TOPK_WITH_CUDA
/// Returns the CUDA backend on the simulated runtime (cuda/fake_runtime.h).
inline std::unique_ptr<Backend> FakeCudaBackend(int64_t chunk_bytes) {
  std::vector<std::string> errors;
  auto devices = cuda::OpenDevices(0, 1, errors);
  if (devices.empty()) throw std::runtime_error(errors.front());
  return MakeCudaBackend(std::move(devices), chunk_bytes);
}
#endif

/// Returns all backends that can run on this machine: the CPU backend once
/// per instruction set, an EagerBackend() and, in a build without CUDA, a
/// FakeCudaBackend() with chunks of a few bytes.
inline std::vector<std::unique_ptr<Backend>> AllBackends(int threads) {
  std::vector<std::unique_ptr<Backend>> backends = MakeBackends(threads);
  const std::string_view had = backends.back()->instruction_set();
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    if (set.name != had) backends.push_back(MakeCpuBackend(threads, set));
  }
#ifndef TOPK_WITH_CUDA
  constexpr int64_t kFewBytes = 200;
  backends.push_back(FakeCudaBackend(kFewBytes));
#endif
  backends.push_back(EagerBackend(threads));
  return backends;
}

/// Returns the backend's name and instruction set, for messages.
inline std::string Describe(const Backend& backend) {
  return std::string(backend.name()) + " " +
         std::string(backend.instruction_set());
}

}  // namespace topk::testing
