// Lists the instruction sets that the kernels were compiled for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/backends/cpu/kernels.h"

namespace topk::cpu {

/// One instruction set and its kernels.
struct InstructionSet {
  /// "avx512", "avx2", "sse4", "neon" or "scalar".
  std::string_view name;
  /// Highway's constant for the instruction set.
  int64_t target;
  const KernelTable* table;

  /// Returns the kernels for one kind of key.
  template <class Key, bool kFloat>
  const Kernels<Key, kFloat>& kernels() const {
    return std::get<Kernels<Key, kFloat>>(table->by_key);
  }
};

/// Returns the instruction sets that this machine can run, best first. Never
/// empty.
std::vector<InstructionSet> SupportedInstructionSets();

}  // namespace topk::cpu
