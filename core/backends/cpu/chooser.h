// Chooses the algorithm, and the number of pieces for the threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan/plan.h"

namespace topk::cpu {

/// The algorithms of this backend.
enum class Algorithm {
  kNothing,      ///< no slices
  kShortRows,    ///< simd/short_rows-inl.h
  kScan,         ///< bound.h, simd/scan-inl.h
  kSort,         ///< rank_sort.h, of whole rows
  kStrided,      ///< rows whose elements do not lie together, copied first
  kColumns,      ///< simd/columns-inl.h
  kTransposed,   ///< columns copied to rows first; transposed.h
  kScanColumns,  ///< a selection for each column
};

/// A way to run a plan. A unit is a row, or a tile of columns.
struct Schedule {
  Algorithm algorithm = Algorithm::kNothing;
  /// Into how many pieces each unit is cut along the axis.
  int64_t pieces = 1;
  /// How many units a task has at least.
  int64_t grain = 1;
  /// Columns in a tile.
  int64_t tile = 1;
  /// kColumns: how many rows of a narrow tensor are taken for one.
  int64_t row_factor = 1;
  /// On how many threads the k best of a slice are sorted.
  int64_t sort_pieces = 1;
  /// Whether the calling thread does all work itself.
  bool run_inline = true;

  /// Whether a unit is a tile of columns.
  bool columns() const {
    return algorithm == Algorithm::kColumns ||
           algorithm == Algorithm::kTransposed ||
           algorithm == Algorithm::kScanColumns;
  }
  /// How many tiles lie side by side.
  int64_t tiles(const Plan& plan) const {
    return (plan.inner + tile - 1) / tile;
  }
  /// How many units there are.
  int64_t units(const Plan& plan) const {
    return columns() ? plan.outer * tiles(plan) : plan.slices();
  }
};

/// Returns the rows that kTransposed makes of a tile of a plan's columns: all
/// packed, the axis last.
Plan RowsOfTile(const Plan& plan, int64_t columns);

/// Whether an algorithm can run a plan at all, well or badly.
bool CanRun(Algorithm algorithm, const Plan& plan);

/// The least k for which columns that kColumns can take are copied to rows
/// instead, because too many elements would enter the state of a column.
/// REQUIRES: kTransposed can run the plan.
int64_t TransposedFromK(const Plan& plan);

/// A task of less work costs more to hand over than to run, in nanoseconds.
inline constexpr double kTaskNanoseconds = 10000;

/// Chooses for `threads` >= 1 and tasks of `task` nanoseconds at least. A plan
/// whose cost is at most kSerialNanoseconds runs on one thread; a smaller
/// `task` lowers that limit in proportion. A pure function of the shape; the
/// constants are those of tests/bench.
Schedule Choose(const Plan& plan, int threads, double task = kTaskNanoseconds);

/// Cuts the work of an algorithm as Choose() does. REQUIRES: CanRun.
Schedule Cut(Algorithm algorithm, const Plan& plan, int threads,
             double task = kTaskNanoseconds);

/// Returns an estimate of the time that a schedule takes on `threads` threads.
int64_t EstimateNanoseconds(const Plan& plan, const Schedule& schedule,
                            int threads);

/// Returns on how many of the threads to sort k candidates.
int64_t SortPieces(int64_t k, int threads, double task = kTaskNanoseconds);

/// Returns a schedule's name, e.g. "scan" or, cut along the axis, "scan-split".
std::string_view NameOf(const Schedule& schedule);

}  // namespace topk::cpu
