// The parameters of a computation.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/backends/backend.h"
#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/backends/cpu/pieces.h"
#include "core/base/cancellation.h"
#include "core/base/dtype.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// The name of this backend.
inline constexpr std::string_view kName = "cpu";

/// Resources that all computations of a backend share.
struct Resources {
  const int threads;
  const InstructionSet set;
  /// The minimum time of a task, in nanoseconds.
  const double task;
  ArenaPool arenas;

  /// Calls fn(), in an arena if the schedule uses several threads.
  template <class Fn>
  void Run(const Schedule& schedule, const Fn& fn) {
    schedule.threads == 1 ? fn() : arenas.Run(schedule.threads, fn);
  }
};

/// The parameters of a computation on one tensor, or on a part of a tensor. All
/// referenced objects must outlive this object.
struct ExecutionContext {
  const Plan& plan;
  const Schedule& schedule;
  const InstructionSet& set;
  const Outputs& outputs;
  const Cancellation* cancellation;  ///< may be null
  const std::byte* elements;
  int64_t first = 0;  ///< the number of the first element in `elements`

  /// Returns the address of element number `element` of the tensor.
  const std::byte* at(int64_t element) const {
    return elements + (element - first) * InfoOf(plan.dtype).bytes;
  }
};

}  // namespace topk::cpu
