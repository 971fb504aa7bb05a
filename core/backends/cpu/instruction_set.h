// The instruction sets that the kernels were compiled for, and which to use.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/backends/cpu/kernels.h"
#include "core/base/status.h"

namespace topk::cpu {

/// One instruction set and its kernels.
struct InstructionSet {
  /// "avx512", "avx2", "sse4", "neon" or "scalar".
  std::string_view name;
  /// Highway's number of it.
  int64_t target;
  const KernelTable* table;

  /// The kernels for one kind of key.
  template <class Key, bool kFloat>
  const Kernels<Key, kFloat>& kernels() const {
    return std::get<Kernels<Key, kFloat>>(*table);
  }
};

/// Returns those that were compiled, best first.
std::span<const InstructionSet> CompiledInstructionSets();

/// Returns those that this machine can run, best first; there is one at least.
std::vector<InstructionSet> SupportedInstructionSets();

/// Returns the one with this name, or the best for "". INVALID_ARGUMENT for a
/// name that is unknown or that this machine cannot run.
Result<InstructionSet> ChooseInstructionSet(std::string_view name);

}  // namespace topk::cpu
