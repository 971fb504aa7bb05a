// Stages the outputs of whole slices: buffers the outputs of a tile as rows of
// k elements, and then moves them to their places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/backends/backend.h"
#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/scratch.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// The outputs that the slices of a tile are written to. These are the outputs
/// of the context unless the schedule stages outputs.
class OutputRows {
 public:
  /// `context` must outlive this object. Throws std::bad_alloc.
  explicit OutputRows(const ExecutionContext& context)
      : context_(context), outputs_(context.outputs) {
    if (!context.schedule.stages) return;
    const Plan& plan = context.plan;
    const auto stage = [&](Scratch<std::byte>& memory, bool wanted,
                           DType type) {
      const int64_t bytes = context.schedule.tile * plan.k * InfoOf(type).bytes;
      return memory.Get(wanted ? static_cast<size_t>(bytes) : 0);
    };
    outputs_ = {stage(values_, plan.wants_values, plan.dtype),
                stage(indices_, plan.wants_indices, plan.index_type)};
  }

  const Outputs& outputs() const { return outputs_; }

  /// Returns where in outputs() to write slice `first` of the tensor, the first
  /// slice of a tile.
  int64_t Row(int64_t first) const {
    return context_.schedule.stages ? 0 : first;
  }

  /// Moves a tile of `width` slices to its place.
  void MoveOut(int64_t first, int64_t width) const {
    if (!context_.schedule.stages) return;
    const Plan& plan = context_.plan;
    if (plan.wants_values) {
      Move(plan.dtype, plan.values, first, width, outputs_.values.data(),
           context_.outputs.values.data());
    }
    if (plan.wants_indices) {
      Move(plan.index_type, plan.indices, first, width, outputs_.indices.data(),
           context_.outputs.indices.data());
    }
  }

 private:
  void Move(DType type, const Layout& layout, int64_t first, int64_t width,
            const std::byte* from, std::byte* to) const {
    const Plan& plan = context_.plan;
    const int bytes = InfoOf(type).bytes;
    const int64_t step = layout.strides[static_cast<size_t>(plan.axis)];
    const int64_t adjacent = layout.contiguous && plan.inner > 1 ? width : 1;
    const auto copy = [&](int64_t begin, int64_t end) {
      for (int64_t c = 0; c < width; c += adjacent) {
        const int64_t at = SliceOffset(plan, layout, first + c) + begin * step;
        context_.set.table->transpose(
            bytes, from + (c * plan.k + begin) * bytes, adjacent, end - begin,
            plan.k, to + at * bytes, step);
      }
    };
    ForEachBlock(0, plan.k, RowsPerBlock(width), context_.cancellation, copy);
  }

  const ExecutionContext& context_;
  Outputs outputs_;
  Scratch<std::byte> values_;
  Scratch<std::byte> indices_;
};

}  // namespace topk::cpu
