// Chooses the algorithm for a plan and divides the work into tasks.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan/plan.h"

namespace topk::cpu {

/// The algorithms of this backend.
enum class Algorithm {
  kNothing,    ///< no slices
  kShortRows,  ///< simd/short_rows-inl.h
  kScan,       ///< row_feed.h, simd/scan-inl.h
  kSort,       ///< rank_sort.h, of whole slices
  kColumns,    ///< simd/columns-inl.h
};

/// Slices with consecutive numbers.
struct SliceRange {
  int64_t first;
  int64_t count;
};

/// A way to run a plan. A unit of work is a tile: adjacent slices that are
/// computed together.
struct Schedule {
  Algorithm algorithm = Algorithm::kNothing;
  /// Whether slices are copied to contiguous rows first (block_source.h).
  bool copies = false;
  /// The number of slices in a tile. The last tile may have fewer.
  int64_t tile = 1;
  /// The number of elements of each slice that are read together: n, or fewer
  /// if kScan copies.
  int64_t block = 1;
  /// The number of pieces into which each unit is cut along the axis.
  int64_t pieces = 1;
  /// The minimum number of units in a task.
  int64_t grain = 1;
  /// kColumns: the number of rows of a narrow tensor that form one row.
  int64_t row_factor = 1;
  /// The number of threads that sort the k best of a slice.
  int64_t sort_pieces = 1;
  /// Whether the calling thread does all work itself.
  bool run_inline = true;

  /// Returns the number of units.
  int64_t units(const Plan& plan) const {
    return plan.slices() / group(plan) * tiles(plan);
  }
  /// Returns the slices of a unit.
  SliceRange tile_at(const Plan& plan, int64_t unit) const {
    const int64_t begin = unit % tiles(plan) * tile;
    const int64_t end = begin + tile < group(plan) ? begin + tile : group(plan);
    return {unit / tiles(plan) * group(plan) + begin, end - begin};
  }

 private:
  // Slices with different outer indices share no tile, unless inner is 1.
  static int64_t group(const Plan& plan) {
    return plan.inner > 1 ? plan.inner : plan.slices();
  }
  int64_t tiles(const Plan& plan) const {
    return (group(plan) + tile - 1) / tile;
  }
};

/// Returns the number of elements of a slice that are read: all n, or k if a
/// stride of 0 makes them one element.
int64_t DistinctElements(const Plan& plan);

/// Returns the plan of a tile of slices that were copied to rows.
Plan RowsOfTile(const Plan& plan, int64_t slices);

/// Returns whether an algorithm can run a plan at all, fast or not.
bool CanRun(Algorithm algorithm, const Plan& plan);

/// Returns the least k for which slices are copied to rows although kColumns
/// can run them, because too many elements would enter the state of a column.
int64_t CopiedFromK(const Plan& plan);

/// A task of less work costs more to hand over than to run, in nanoseconds.
inline constexpr double kTaskNanoseconds = 10000;

/// Chooses for `threads` >= 1 and tasks of `task` nanoseconds at least. A plan
/// whose cost is at most kSerialNanoseconds runs on one thread; a smaller
/// `task` lowers that limit in proportion. A pure function of the shape; the
/// constants are those of tests/bench.
Schedule Choose(const Plan& plan, int threads, double task = kTaskNanoseconds);

/// Divides the work of an algorithm as Choose() does. REQUIRES: CanRun.
Schedule Cut(Algorithm algorithm, const Plan& plan, int threads,
             double task = kTaskNanoseconds);

/// Returns the number of candidates that a selection holds in addition to k. A
/// small k would reselect too often with a slack of k; a large one takes enough
/// memory already. `many` selections share the cache, so each takes less.
int64_t SlackFor(int64_t k, bool many);

/// Returns the number of rows that a fold collects: all n if they take little
/// memory, or at most twice the memory of the columns' selections.
int64_t FoldRows(const Plan& plan);

/// Returns the schedule for the rows that a fold collects: the one of a whole
/// tensor if they are all n, otherwise one for copies of some rows.
Schedule FoldSchedule(const Plan& plan, int threads, double task);

/// Returns an estimate of the time that a schedule takes on `threads` threads.
int64_t EstimateNanoseconds(const Plan& plan, const Schedule& schedule,
                            int threads);

/// Returns the number of threads on which k candidates are sorted.
int64_t SortPieces(int64_t k, int threads, double task = kTaskNanoseconds);

/// Returns a schedule's name, e.g. "scan", or "scan-split" if the slices are
/// cut along the axis; "scan-copied" if they are copied to rows.
std::string_view NameOf(const Schedule& schedule);

}  // namespace topk::cpu
