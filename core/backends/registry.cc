#include "core/backends/registry.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/backends/cpu/cpu_backend.h"
#include "core/base/text.h"
#ifdef TOPK_WITH_CUDA
#include <absl/strings/str_join.h>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/probe.h"
#endif

namespace topk {
namespace {

Result<std::unique_ptr<Backend>> MakeCpu(int threads, const BackendOptions&) {
  const char* const variable = std::getenv(kInstructionSetVariable);
  const std::string_view name = variable == nullptr ? "" : variable;
  std::string names;
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    if (name.empty() || set.name == name) return MakeCpuBackend(threads, set);
    names += StrCat(names.empty() ? "" : ", ", set.name);
  }
  return InvalidArgument(
      "INSTRUCTION_SET", kInstructionSetVariable,
      StrCat("this machine cannot run the instruction set \"", name,
             "\"; it has ", names));
}

#ifdef TOPK_WITH_CUDA
// Returns the speeds of the first device. The others are assumed to be alike.
cuda::Speeds SpeedsOf(cuda::Device& device, const BackendOptions& options) {
  const Result<cuda::Speeds> measured = cuda::MeasureSpeeds(device);
  const cuda::Speeds speeds = measured.ok() ? *measured : cuda::Speeds();
  const auto thousandths = [](double number) {
    return static_cast<int64_t>(number * 1000);
  };
  if (options.inform) {
    options.inform(StrCat(
        device.state().name, ": a small request takes ",
        static_cast<int64_t>(speeds.request_nanoseconds / 1000),
        " us, copies run at ", thousandths(speeds.copied_bytes),
        " MB/s, sorts at ", thousandths(speeds.sorted_elements), " elements/us",
        measured.ok()
            ? ""
            : StrCat(" (not measured: ", measured.status().message, ")")));
  }
  return speeds;
}

Result<std::unique_ptr<Backend>> MakeCuda(int threads,
                                          const BackendOptions& options) {
  std::vector<std::string> errors;
  auto devices =
      cuda::OpenDevices(options.device_memory_bytes, threads, errors);
  if (devices.empty()) {
    return InvalidArgument("NO_CUDA_DEVICE", "backend",
                           absl::StrJoin(errors, "; "));
  }
  if (options.log) std::ranges::for_each(errors, options.log);
  const cuda::Speeds speeds = SpeedsOf(*devices.front(), options);
  return MakeCudaBackend(std::move(devices), cuda::kChunkBytes, speeds);
}
#else
Result<std::unique_ptr<Backend>> MakeCuda(int, const BackendOptions&) {
  return InvalidArgument("NO_CUDA", "backend",
                         "CUDA requires a build with -DTOPK_WITH_CUDA=ON");
}
#endif

struct Row {
  const char* name;
  /// Returns the backend, or the reason why this process cannot use the
  /// backend. Initializes and checks the devices of the backend.
  Result<std::unique_ptr<Backend>> (*make)(int threads,
                                           const BackendOptions& options);
};
constexpr Row kRows[] = {
    {"cuda", MakeCuda},
    {"cpu", MakeCpu},
};
constexpr const Row& kLastRow = *std::rbegin(kRows);

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Status CheckEnvironment(const BackendOptions& options) {
  for (const Row& row : kRows) {
    if (&row != &kLastRow && options.choice != row.name) continue;
    const auto made = row.make(1, options);
    if (!made.ok()) return made.status();
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
    if (!last && !wanted) continue;
    auto made = row.make(threads, options);
    // The last backend is required: `*made` throws if it is not available.
    if (last || made.ok()) {
      backends.push_back(*std::move(made));
    } else if (made.status().reason != "NO_CUDA" && options.log) {
      options.log(std::string("backend ") + row.name +
                  " is not used: " + made.status().message);
    }
  }
  return backends;
}

}  // namespace topk
