// A selection over a packed tensor that arrives in pieces.
#pragma once

#include <tbb/task_arena.h>

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/instruction_set.h"

namespace topk::cpu {

/// Returns the fold of PreparedPlan::StartFold. It keeps `inner` selections,
/// one per unfinished slice, and writes each slice with its last element, so
/// that its memory is O(k * inner) for a tensor of any length. The arena, in
/// which a slice is sorted if in several pieces, outlives the fold's calls; the
/// fold may be destroyed after it.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               const InstructionSet& set, int64_t sort_pieces,
                               tbb::task_arena& arena,
                               const Cancellation* cancellation);

}  // namespace topk::cpu
