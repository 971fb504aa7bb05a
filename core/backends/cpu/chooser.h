// Chooses the algorithm for a plan and splits the work into tasks.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "core/plan/plan.h"

namespace topk::cpu {

/// The algorithms of this backend.
enum class Algorithm {
  kShortRows,  ///< simd/short_rows-inl.h
  kScan,       ///< row_feed.h, simd/scan-inl.h
  kSort,       ///< rank_sort.h, on whole slices
  kColumns,    ///< simd/columns-inl.h
};

/// How to run a plan. The slices are divided into tiles: a tile consists of
/// adjacent slices that one thread computes together, or several threads if
/// `pieces` > 1. If inner > 1, all slices of a tile have the same outer index.
struct Schedule {
  Algorithm algorithm = Algorithm::kScan;
  /// Whether slices are copied to contiguous rows first (block_source.h).
  bool copies = false;
  /// Whether the outputs of a tile are staged: buffered as rows of k elements,
  /// and then moved to their places. The short-rows kernel can write only rows.
  /// For other tiles of copied whole slices, moving all outputs in one pass is
  /// faster.
  bool stages = false;
  /// The number of slices in a tile. The last tile may have fewer.
  int64_t tile = 1;
  /// The number of elements of each slice to read at a time. A slice is read in
  /// several blocks only if kScan copies slices.
  int64_t block = 1;
  /// The number of parallel pieces into which a tile is cut along the axis.
  int64_t pieces = 1;
  /// The number of threads. With one, the calling thread does all the work.
  int threads = 1;
  /// A task of at most this many tiles is not split further.
  int64_t grain = std::numeric_limits<int64_t>::max();
  /// Used by kColumns for narrow tensors: the number of adjacent axis positions
  /// that are joined into one wide row.
  int64_t row_factor = 1;
  /// The number of parallel pieces in which the k best elements of a slice are
  /// sorted, or all elements if the algorithm is kSort.
  int64_t sort_pieces = 1;

  /// Returns the number of slices of a tile that are selected from at the same
  /// time: all of them if slices are read in several blocks.
  int64_t selections(const Plan& plan) const {
    return block < plan.n ? tile : 1;
  }

  /// Returns the number of tiles in `slices` > 0 slices. REQUIRES: these are
  /// all slices of some outer indices.
  int64_t tiles(const Plan& plan, int64_t slices) const {
    const int64_t adjacent = plan.inner > 1 ? plan.inner : slices;
    return slices / adjacent * ((adjacent + tile - 1) / tile);
  }
};

/// Returns whether an algorithm supports a plan, even if it would be slow.
bool CanRun(Algorithm algorithm, const Plan& plan);

/// If a tensor has fewer columns than this, kColumns processes several axis
/// positions together, as a row of about this many columns.
inline constexpr int64_t kJoinedColumns = 64;

/// Returns the smallest k for which it is faster to copy slices to rows than to
/// use kColumns. The result is greater than 2 * (bytes per element).
int64_t CopiedFromK(const Plan& plan);

/// The minimum work of a task, in nanoseconds. A smaller task would end before
/// another thread has woken up, which takes up to 50 us. Tasks of long slices
/// take up to three times as long as estimated, because they read memory.
inline constexpr double kTaskNanoseconds = 20000;

/// Chooses a schedule for at most `threads` >= 1 threads, each of which has at
/// least one task of `task` nanoseconds. A plan of less than two tasks runs on
/// one thread. With kTaskNanoseconds, this includes every plan whose cost is at
/// most kSerialNanoseconds. The result depends only on the arguments and on
/// constants measured by tests/bench. REQUIRES: the plan has slices, as for all
/// functions below.
Schedule Choose(const Plan& plan, int threads, double task = kTaskNanoseconds);

/// Like Choose(), but uses the given algorithm. REQUIRES: CanRun().
Schedule Cut(Algorithm algorithm, const Plan& plan, int threads,
             double task = kTaskNanoseconds);

/// How to run a plan on a tensor that arrives in chunks (element_fold.h).
struct FoldPlan {
  /// The plan, with elements of whole bytes: the fold unpacks elements.
  Plan plan;
  /// The number of axis positions to buffer at a time: all n if the slices are
  /// small or, if inner > 1, take at most six times the memory of their
  /// selections.
  int64_t positions;
  /// The schedule of a block of this many positions: kScan if the block has
  /// only a part of each slice.
  Schedule schedule;
};

/// Like Choose(), but for a contiguous tensor that arrives in chunks.
FoldPlan ChooseFold(const Plan& plan, int threads,
                    double task = kTaskNanoseconds);

/// Returns the estimated time of a schedule.
int64_t EstimateNanoseconds(const Plan& plan, const Schedule& schedule);

/// Returns a schedule's name, e.g. "scan". The name is "scan-split" if slices
/// are cut along the axis, and "scan-copied" if slices are copied to rows.
std::string_view NameOf(const Schedule& schedule);

}  // namespace topk::cpu
