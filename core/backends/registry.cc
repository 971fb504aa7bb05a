#include "core/backends/registry.h"

#include <cstdlib>
#include <utility>

#include "core/backends/cpu/cpu_backend.h"
#ifdef TOPK_WITH_CUDA
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_device.h"
#endif

namespace topk {
namespace {

Result<cpu::InstructionSet> ForcedOrBest() {
  const char* name = std::getenv(kInstructionSetVariable);
  return cpu::ChooseInstructionSet(name == nullptr ? "" : name);
}

// OK, or why there is no CUDA backend.
Status CheckCuda() {
#ifdef TOPK_WITH_CUDA
  return cuda::CheckDevices();
#else
  return InvalidArgument("NO_CUDA", "backend",
                         "CUDA was not built in: configure with "
                         "-DTOPK_WITH_CUDA=ON");
#endif
}

}  // namespace

BackendChoice BackendChoiceOf(std::string_view name) {
  if (name == "cpu") return BackendChoice::kCpu;
  return name == "cuda" ? BackendChoice::kCuda : BackendChoice::kAuto;
}

Status CheckEnvironment(const BackendOptions& options) {
  const Result<cpu::InstructionSet> set = ForcedOrBest();
  if (!set.ok()) return set.status();
  return options.choice == BackendChoice::kCuda ? CheckCuda() : Status();
}

std::vector<std::unique_ptr<Backend>> MakeBackends(
    int threads, const BackendOptions& options) {
  const Result<cpu::InstructionSet> set = ForcedOrBest();
  std::vector<std::unique_ptr<Backend>> backends;
#ifdef TOPK_WITH_CUDA
  if (options.choice != BackendChoice::kCpu && CheckCuda().ok()) {
    auto devices = cuda::OpenDevices(options.device_memory_bytes);
    if (!devices.empty()) {
      backends.push_back(MakeCudaBackend(std::move(devices)));
    }
  }
#else
  (void)options;
#endif
  // Never another one in silence: without a set this throws.
  backends.push_back(MakeCpuBackend(threads, *set));
  return backends;
}

}  // namespace topk
