// Runs the tiles of a schedule with the selected algorithm.
#pragma once

#include <algorithm>

#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/slices.h"

namespace topk::cpu {

/// Runs `slices` slices, starting with slice `first`. REQUIRES: these are all
/// slices of some outer indices, and the caller runs in an arena if the
/// schedule uses several threads.
template <class Key, bool kFloat>
void RunTiles(const ExecutionContext& context, int64_t first, int64_t slices) {
  const Schedule& schedule = context.schedule;
  const int64_t tiles = schedule.tiles(context.plan, slices);
  // All slices, or those of an outer index.
  const int64_t adjacent = context.plan.inner > 1 ? context.plan.inner : slices;
  const int64_t tiles_of_adjacent = tiles / (slices / adjacent);
  const auto run_tiles = [&](auto runner, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !IsCancelled(context.cancellation);
         ++i) {
      const int64_t at = i % tiles_of_adjacent * schedule.tile;
      runner.Do(first + i / tiles_of_adjacent * adjacent + at,
                std::min(schedule.tile, adjacent - at));
    }
  };
  ForEachRange(tiles, schedule.grain, context.cancellation,
               [&](int64_t begin, int64_t end) {
                 if (schedule.algorithm == Algorithm::kColumns) {
                   run_tiles(ColumnRunner<Key, kFloat>(context), begin, end);
                 } else {
                   run_tiles(SliceRunner<Key, kFloat>(
                                 context, schedule.selections(context.plan)),
                             begin, end);
                 }
               });
}

}  // namespace topk::cpu
