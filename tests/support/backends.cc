#include "tests/support/backends.h"

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/registry.h"
#include "tests/support/host_device.h"

namespace topk::testing {

std::vector<std::unique_ptr<Backend>> AllBackends(int threads) {
  std::vector<std::unique_ptr<Backend>> backends = MakeBackends(threads);
  const std::string_view had = backends.back()->instruction_set();
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    if (set.name != had) backends.push_back(MakeCpuBackend(threads, set));
  }
  constexpr int64_t kFewElements = 50;
  backends.push_back(HostCudaBackend(kFewElements));
  backends.push_back(EagerBackend(threads));
  return backends;
}

std::unique_ptr<Backend> EagerBackend(int threads) {
  constexpr double kNanoseconds = 50;
  return MakeCpuBackend(threads, cpu::SupportedInstructionSets().front(),
                        kNanoseconds);
}

std::unique_ptr<Backend> HostCudaBackend(int64_t chunk_elements) {
  std::vector<std::unique_ptr<cuda::Device>> devices;
  devices.push_back(MakeHostDevice());
  return MakeCudaBackend(std::move(devices), chunk_elements);
}

std::string Describe(const Backend& backend) {
  return std::string(backend.name()) + " " +
         std::string(backend.instruction_set());
}

}  // namespace topk::testing
