// The parameters of a run of a plan over one tensor.
#pragma once

#include <cstdint>

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/base/cancellation.h"
#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/elements.h"
#include "core/base/sort_key_encoder.h"
#include "core/base/with_sort_key_encoder.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Resources that all computations of a backend share.
struct Resources {
  const int threads;
  const InstructionSet set;
  /// The minimum time of a task, in nanoseconds.
  const double task;
  ArenaPool arenas;
};

/// The parameters of a run over one tensor. All referenced objects must outlive
/// this object.
template <class Key, bool kFloat>
struct RunContext {
  const Plan& plan;
  const Schedule& schedule;
  const InstructionSet& set;
  const Kernels<Key, kFloat>& kernels;
  const SortKeyEncoder<Key, kFloat>& encoder;
  const std::byte* tensor;
  const Outputs& outputs;
  const Cancellation* cancellation;  ///< may be null
  int64_t first = 0;  ///< the number of the first element of `tensor`

  /// Returns the address of element number `element`.
  const std::byte* at(int64_t element) const {
    return At<Key>(tensor, element - first);
  }
};

}  // namespace topk::cpu
