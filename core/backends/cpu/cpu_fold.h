// A selection over a packed tensor that arrives in pieces.
#pragma once

#include <tbb/task_arena.h>

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/instruction_set.h"

namespace topk::cpu {

/// Returns the fold of Backend::Start. It keeps `inner` selections, those of
/// the slices that are under way, and writes each slice when its last element
/// has come, so its memory is O(k * inner) however long the tensor is. The
/// arena, in which a slice is sorted if in several pieces, outlives the fold's
/// calls; the fold may be destroyed after it.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               const InstructionSet& set, int64_t sort_pieces,
                               tbb::task_arena& arena,
                               const Cancellation* cancellation);

}  // namespace topk::cpu
