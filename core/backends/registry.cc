#include "core/backends/registry.h"

#include "core/backends/cpu/cpu_backend.h"

namespace topk {

std::vector<std::unique_ptr<Backend>> MakeBackends(int threads) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCpuBackend(threads));
  return backends;
}

}  // namespace topk
