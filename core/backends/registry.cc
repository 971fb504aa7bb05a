#include "core/backends/registry.h"

#include <cstdlib>

#include "core/backends/cpu/cpu_backend.h"

namespace topk {
namespace {

Result<cpu::InstructionSet> ForcedOrBest() {
  const char* name = std::getenv(kInstructionSetVariable);
  return cpu::ChooseInstructionSet(name == nullptr ? "" : name);
}

}  // namespace

Status CheckEnvironment() {
  const Result<cpu::InstructionSet> set = ForcedOrBest();
  return set.ok() ? Status() : set.status();
}

std::vector<std::unique_ptr<Backend>> MakeBackends(int threads) {
  const Result<cpu::InstructionSet> set = ForcedOrBest();
  // Never another one in silence: without a set this throws.
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCpuBackend(threads, *set));
  return backends;
}

}  // namespace topk
