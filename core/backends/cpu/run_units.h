// Runs the tiles of a schedule with the selected algorithm.
#pragma once

#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slices.h"

namespace topk::cpu {

/// Runs the tiles begin .. end - 1 of run.schedule. REQUIRES: the algorithm is
/// not kNothing, and the caller runs in an arena unless schedule.run_inline.
template <class Key, bool kFloat>
void RunUnits(const Run<Key, kFloat>& run, int64_t begin, int64_t end) {
  const bool columns = run.schedule.algorithm == Algorithm::kColumns;
  const int64_t grain =
      run.schedule.run_inline ? end - begin : run.schedule.grain;
  ForEachRange(
      end - begin, grain, run.cancellation, [&](int64_t first, int64_t last) {
        if (columns) {
          ColumnRunner<Key, kFloat>(run).Do(begin + first, begin + last);
        } else {
          SliceRunner<Key, kFloat>(run).Do(begin + first, begin + last);
        }
      });
}

/// Returns an upper bound, in bytes, on the memory of RunUnits() on `threads`
/// threads, beyond input and output.
template <class Key, bool kFloat>
Size RunUnitsBytes(const Plan& plan, const Schedule& schedule, int threads) {
  if (schedule.algorithm == Algorithm::kNothing) return 0;
  const int64_t runners =
      schedule.run_inline ? 1
                          : std::min<int64_t>(schedule.units(plan), threads);
  return runners * (schedule.algorithm == Algorithm::kColumns
                        ? ColumnRunner<Key, kFloat>::Bytes(plan, schedule)
                        : SliceRunner<Key, kFloat>::Bytes(plan, schedule));
}

}  // namespace topk::cpu
