// Runs the tiles of a schedule with the selected algorithm.
#pragma once

#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run_context.h"
#include "core/backends/cpu/slices.h"

namespace topk::cpu {

/// Runs a range of slices. REQUIRES: the range has whole outer indices, the
/// algorithm is not kNothing, and the caller runs in an arena unless
/// schedule.run_inline.
template <class Key, bool kFloat>
void RunTiles(const RunContext<Key, kFloat>& run, SliceRange range) {
  const Schedule& schedule = run.schedule;
  const int64_t tiles = schedule.tiles(run.plan, range);
  const auto run_tiles = [&](auto runner, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !IsCancelled(run.cancellation); ++i) {
      const SliceRange tile = schedule.TileAt(run.plan, range, i);
      runner.Do(tile.first, tile.count);
    }
  };
  ForEachRange(tiles, schedule.run_inline ? tiles : schedule.grain,
               run.cancellation, [&](int64_t begin, int64_t end) {
                 if (schedule.algorithm == Algorithm::kColumns) {
                   run_tiles(ColumnRunner<Key, kFloat>(run), begin, end);
                 } else {
                   run_tiles(SliceRunner<Key, kFloat>(run), begin, end);
                 }
               });
}

/// Returns an upper bound, in bytes, on the memory of RunTiles() on `threads`
/// threads, beyond input and output.
template <class Key, bool kFloat>
Size RunTilesBytes(const Plan& plan, const Schedule& schedule, int threads) {
  if (schedule.algorithm == Algorithm::kNothing) return 0;
  const int64_t runners =
      schedule.run_inline
          ? 1
          : std::min<int64_t>(schedule.tiles(plan, AllSlices(plan)), threads);
  return runners * (schedule.algorithm == Algorithm::kColumns
                        ? ColumnRunner<Key, kFloat>::Bytes(plan, schedule)
                        : SliceRunner<Key, kFloat>::Bytes(plan, schedule));
}

}  // namespace topk::cpu
