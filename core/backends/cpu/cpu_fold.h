// A selection over a packed tensor that arrives in pieces.
#pragma once

#include <memory>

#include "core/backends/backend.h"
#include "core/backends/cpu/instruction_set.h"
#include "core/backends/cpu/pieces.h"

namespace topk::cpu {

/// Returns the fold of PreparedPlan::StartFold. It keeps `inner` selections,
/// one per unfinished slice, and writes each slice with its last element, so
/// that its memory is O(k * inner) for a tensor of any length. A slice is
/// sorted in `sort_pieces` pieces, in an arena if there are several. The arenas
/// must outlive the fold's calls; the fold may be destroyed after them.
std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               const InstructionSet& set, int64_t sort_pieces,
                               ArenaPool& arenas,
                               const Cancellation* cancellation);

}  // namespace topk::cpu
