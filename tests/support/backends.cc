#include "tests/support/backends.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/registry.h"
#ifndef TOPK_WITH_CUDA
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#endif

namespace topk::testing {

std::vector<std::unique_ptr<Backend>> AllBackends(int threads) {
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

std::unique_ptr<Backend> EagerBackend(int threads) {
  constexpr double kNanoseconds = 50;
  return MakeCpuBackend(threads, cpu::SupportedInstructionSets().front(),
                        kNanoseconds);
}

#ifndef TOPK_WITH_CUDA
std::unique_ptr<Backend> FakeCudaBackend(int64_t chunk_bytes) {
  std::vector<std::string> errors;
  auto devices = cuda::OpenDevices(0, 1, errors);
  if (devices.empty()) throw std::runtime_error(errors.front());
  return MakeCudaBackend(std::move(devices), chunk_bytes);
}
#endif

std::string Describe(const Backend& backend) {
  return std::string(backend.name()) + " " +
         std::string(backend.instruction_set());
}

}  // namespace topk::testing
