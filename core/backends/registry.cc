#include "core/backends/registry.h"

#include <cstdlib>
#include <iterator>
#include <utility>

#include "core/backends/cpu/cpu_backend.h"
#ifdef TOPK_WITH_CUDA
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device/cuda_device.h"
#endif

namespace topk {
namespace {

Result<cpu::InstructionSet> ForcedOrBest() {
  const char* name = std::getenv(kInstructionSetVariable);
  return cpu::ChooseInstructionSet(name == nullptr ? "" : name);
}

Status CheckCpu() {
  const Result<cpu::InstructionSet> set = ForcedOrBest();
  return set.ok() ? Status() : set.status();
}

std::unique_ptr<Backend> MakeCpu(int threads, const BackendOptions&) {
  // Throws if the set is not available, rather than silently using another.
  return MakeCpuBackend(threads, *ForcedOrBest());
}

#ifdef TOPK_WITH_CUDA
Status CheckCuda() { return cuda::CheckDevices(); }

std::unique_ptr<Backend> MakeCuda(int, const BackendOptions& options) {
  auto devices = cuda::OpenDevices(options.device_memory_bytes);
  return devices.empty() ? nullptr : MakeCudaBackend(std::move(devices));
}
#else
Status CheckCuda() {
  return InvalidArgument("NO_CUDA", "backend",
                         "CUDA was not built in: configure with "
                         "-DTOPK_WITH_CUDA=ON");
}

std::unique_ptr<Backend> MakeCuda(int, const BackendOptions&) {
  return nullptr;
}
#endif

struct Row {
  const char* name;
  /// Returns OK, or the reason why this process cannot use the backend.
  Status (*check)();
  /// Returns null if no device can be opened. REQUIRES: check() is OK.
  std::unique_ptr<Backend> (*make)(int threads, const BackendOptions& options);
};
constexpr Row kRows[] = {
    {"cuda", CheckCuda, MakeCuda},
    {"cpu", CheckCpu, MakeCpu},
};
constexpr const Row& kLastRow = *std::rbegin(kRows);

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Status CheckEnvironment(const BackendOptions& options) {
  if (Status s = kLastRow.check(); !s.ok()) return s;
  for (const Row& row : kRows) {
    if (row.name == options.choice) return row.check();
  }
  return {};
}

std::vector<std::unique_ptr<Backend>> MakeBackends(
    int threads, const BackendOptions& options) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const Row& row : kRows) {
    const bool last = &row == &kLastRow;
    const bool wanted =
        options.choice == kAutoBackend || options.choice == row.name;
    if (!last && !(wanted && row.check().ok())) continue;
    if (auto made = row.make(threads, options)) {
      backends.push_back(std::move(made));
    }
  }
  return backends;
}

}  // namespace topk
