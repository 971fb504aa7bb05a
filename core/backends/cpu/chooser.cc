#include "core/backends/cpu/chooser.h"

#include <algorithm>
#include <array>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/selection.h"

namespace topk::cpu {
namespace {

// A copied tile, or the state of a column tile, may use this many bytes of L2.
constexpr int64_t kTileBytes = int64_t{1} << 19;
// The minimum width of a column tile. Narrower tiles use too little of a page.
constexpr int64_t kMinTile = 256;
// The minimum and maximum widths of a copied tile. Wider tiles are not faster.
constexpr int64_t kMinCopied = 16;
constexpr int64_t kMaxCopied = 128;
// The maximum number of slices in a tile if the slices are rows, have sub-byte
// elements, or are read in several blocks.
constexpr int64_t kMaxTile = 1024;
// The maximum size, in bytes, of a tile whose slices are sorted completely.
constexpr int64_t kSortedBytes = int64_t{1} << 23;
// The block size, in bytes, for slices that are copied one by one. Fits in L1.
constexpr int64_t kRowBytes = int64_t{1} << 14;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t AxisStride(const Plan& plan) {
  return plan.input.strides[static_cast<size_t>(plan.axis)];
}

// The cost of most plans is 5 to 15 times the actual time on one thread.
constexpr double kTypicalFraction = 8;

// Returns the typical time of a plan on one thread.
double TypicalNanoseconds(const Plan& plan) {
  return static_cast<double>(RunNanoseconds(plan).value()) / kTypicalFraction;
}

// Returns the row_factor of a kColumns schedule.
int64_t RowFactor(const Plan& plan) {
  return std::clamp(kJoinedColumns / plan.inner, int64_t{1},
                    std::max(plan.n / (8 * plan.k), int64_t{1}));
}

Algorithm AlgorithmFor(const Plan& plan) {
  if (CanRun(Algorithm::kColumns, plan) && plan.k < CopiedFromK(plan)) {
    // kColumns keeps a list of candidates for each of the `factor` parts of a
    // slice. At least k elements are inserted into each list.
    const int64_t factor = RowFactor(plan);
    const int64_t entering = 32 * factor * plan.k * plan.k;
    if (factor == 1 || entering < plan.n * InfoOf(plan.dtype).bytes) {
      return Algorithm::kColumns;
    }
  }
  // The short-rows kernel rejects rows with many equal elements. Avoid it for
  // sub-byte types if n exceeds kEqual times the number of possible values.
  constexpr int64_t kEqual = 16;
  const DTypeInfo& type = InfoOf(plan.dtype);
  const bool repeats = type.packed() && plan.n > kEqual << type.bits;
  if (!repeats && CanRun(Algorithm::kShortRows, plan)) {
    return Algorithm::kShortRows;
  }
  // Sorting all elements is faster than selecting if k is more than half of n,
  // or more than a quarter of n for 1-byte elements.
  const int64_t fraction = type.bytes == 1 ? 4 : 2;
  const bool sorts = plan.k > plan.n / fraction;
  return sorts && CanRun(Algorithm::kSort, plan) ? Algorithm::kSort
                                                 : Algorithm::kScan;
}

// Returns how many elements of each slice to copy at a time: an odd number of
// cache lines, so that the rows do not compete for a few sets of L1.
int64_t BlockFor(int64_t tile, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const int64_t lines = kTileBytes / tile / kLine;
  return std::min(((lines - 1) | 1) * kLine / bytes,
                  kBlockElements - kLine / bytes);
}

// Sets the tile and block sizes of a schedule that copies rows into blocks.
void SetCopiedTile(const Plan& plan, Schedule& schedule) {
  const bool rows = plan.inner == 1;
  const int64_t n = plan.n;
  const int64_t bytes = InfoOf(plan.dtype).bytes;
  const int64_t row_bytes = n * bytes;
  const int64_t most = rows || plan.input.packed ? kMaxTile : kMaxCopied;
  // Scans of sub-byte elements often end early: copy less of them at a time.
  const int64_t narrow = plan.input.packed && !rows ? kMaxCopied : kMinCopied;
  const bool fits = row_bytes <= kTileBytes / narrow;
  if (fits || schedule.algorithm != Algorithm::kScan) {
    const int64_t room = fits ? kTileBytes : kSortedBytes;
    schedule.tile =
        std::clamp(room / row_bytes, int64_t{1}, fits ? most : kMinCopied);
    return;
  }
  // Tiles help only if their slices are adjacent.
  const bool adjacent =
      plan.slices() > 1 && SliceOffset(plan, plan.input, 1) == 1;
  schedule.tile = adjacent ? std::clamp(kTileBytes / 4 / plan.k / bytes,
                                        kMinCopied, kMaxTile)
                           : 1;
  schedule.block = std::min(
      n, adjacent ? BlockFor(schedule.tile, bytes) : kRowBytes / bytes);
}

// Returns FoldPlan::positions.
int64_t BufferedPositions(const Plan& plan) {
  // Buffer slices completely if they take at most kSmall bytes in total, even
  // if the selections would take less memory.
  constexpr int64_t kSmall = int64_t{1} << 22;
  const int64_t bytes = InfoOf(plan.dtype).bytes;
  if (plan.inner == 1) {
    // Buffering gains little if slices are contiguous. Buffer only slices of up
    // to 64 KiB, and parts of longer slices that have less than 4 KiB.
    return plan.n <= (64 << 10) / bytes ? plan.n : (4 << 10) / bytes;
  }
  // With fewer rows, the fixed cost of a block would dominate.
  constexpr int64_t kMinRows = 64;
  // The size of three selections, in bytes.
  const auto selections = [&](Size capacity) {
    return 3 * capacity * Size(bytes + 16);
  };
  const Size slice = Size(plan.n) * bytes;
  const Size kept = selections(SelectionCapacity(plan.k, plan.n, true));
  if (slice <= std::max(2 * kept, Size(kSmall / plan.inner))) return plan.n;
  const Size least = selections(std::min(2 * Size(plan.k), Size(plan.n)));
  return std::min(plan.n, std::max(least.value() / bytes, kMinRows));
}

// Returns the number of pieces in which k candidates are sorted in parallel.
int64_t SortPieces(int64_t k, int threads, double task) {
  constexpr double kSortNanoseconds = 4;  // per candidate
  const auto useful =
      static_cast<int64_t>(static_cast<double>(k) * kSortNanoseconds / task);
  return std::clamp(useful, int64_t{1}, int64_t{threads});
}

}  // namespace

int64_t CopiedFromK(const Plan& plan) {
  const int64_t bytes = InfoOf(plan.dtype).bytes;
  int64_t k = 2 * bytes + 1;
  while (k <= kColumnK && 32 * k * k < plan.n * bytes) ++k;
  return k;
}

bool CanRun(Algorithm algorithm, const Plan& plan) {
  const bool counts = plan.n < int64_t{1} << 32;  // fits 32 bits
  switch (algorithm) {
    case Algorithm::kShortRows:
      return plan.n <= kShortN && plan.k <= kShortK;
    case Algorithm::kScan:
      return true;
    case Algorithm::kSort:
      return counts && plan.order == Order::kValue;
    case Algorithm::kColumns:
      return plan.input.contiguous && plan.inner > 1 &&
             InfoOf(plan.dtype).bytes >= 4 && plan.k <= kColumnK &&
             (counts || InfoOf(plan.dtype).bytes == 8);
  }
  return false;
}

Schedule Choose(const Plan& plan, int threads, double task) {
  // Waking a thread for less than a task would not save time. Plans that a
  // poller runs use only its thread.
  static_assert(kSerialNanoseconds / kTypicalFraction < 2 * kTaskNanoseconds);
  const auto tasks = static_cast<int>(
      std::min(TypicalNanoseconds(plan) / task, static_cast<double>(threads)));
  return Cut(AlgorithmFor(plan), plan, std::max(tasks, 1), task);
}

Schedule Cut(Algorithm algorithm, const Plan& plan, int threads, double task) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  const DTypeInfo& type = InfoOf(plan.dtype);
  const int64_t n = plan.n;
  schedule.block = n;
  // Makes the tiles small enough that each thread gets a tile, but not smaller
  // than `least` slices.
  const auto divide = [&](int64_t least) {
    const int64_t groups = plan.inner > 1 ? plan.outer : 1;
    const int64_t group = plan.slices() / groups;
    const int64_t wanted = CeilDivide(threads, groups);
    schedule.tile =
        std::min(schedule.tile, std::max(CeilDivide(group, wanted), least));
    schedule.tile = std::min(schedule.tile, group);
  };
  if (algorithm == Algorithm::kColumns) {
    schedule.tile = kTileBytes / (2 * plan.k * type.bytes);
    divide(kMinTile);
    schedule.row_factor = RowFactor(plan);
  } else {
    const bool contiguous = AxisStride(plan) == 1 && !plan.input.packed;
    const bool short_rows = algorithm == Algorithm::kShortRows;
    schedule.copies = !contiguous || (short_rows && !plan.input.contiguous);
    if (schedule.copies) {
      SetCopiedTile(plan, schedule);
      divide(plan.inner == 1 ? 1 : kMinCopied);
    } else if (short_rows) {
      schedule.tile =
          std::clamp(kBlockBytes / (n * type.bytes), int64_t{1}, kMaxTile);
      if (threads > 1) {  // several tiles for each thread
        schedule.tile = std::min(
            schedule.tile,
            std::max(CeilDivide(plan.slices(), 8 * threads), kMinCopied));
      }
    }
  }
  const bool copies_whole = schedule.copies && schedule.block == n;
  const bool writes_rows =
      plan.inner == 1 && plan.values.contiguous && plan.indices.contiguous;
  schedule.stages =
      !writes_rows && (copies_whole || algorithm == Algorithm::kShortRows);
  const int64_t tiles = schedule.tiles(plan, plan.slices());
  if (threads == 1) return schedule;
  const double cost = TypicalNanoseconds(plan) / static_cast<double>(tiles);
  schedule.threads = threads;
  schedule.grain = static_cast<int64_t>(
      std::clamp(task / cost, 1.0, static_cast<double>(tiles)));
  // If there are fewer tiles than threads, divide each tile along the axis.
  const bool cut = algorithm == Algorithm::kColumns ||
                   algorithm == Algorithm::kSort ||
                   (algorithm == Algorithm::kScan && !copies_whole);
  if (tiles < threads && cut) {
    const auto useful = static_cast<int64_t>(cost / task);
    const int64_t most = algorithm == Algorithm::kSort
                             ? plan.n
                             : plan.n / schedule.row_factor / plan.k;
    schedule.pieces = std::max(
        std::min({CeilDivide(threads, tiles), useful, most}), int64_t{1});
  }
  schedule.sort_pieces = schedule.algorithm == Algorithm::kSort
                             ? schedule.pieces
                             : SortPieces(plan.k, threads, task);
  return schedule;
}

FoldPlan ChooseFold(const Plan& plan, int threads, double task) {
  FoldPlan fold = {plan, BufferedPositions(plan), {}};
  fold.plan.input.packed = false;
  Schedule& schedule = fold.schedule;
  if (fold.positions == plan.n) {
    Plan block = fold.plan;
    block.outer = 1;
    block.values.bytes /= plan.outer;
    block.indices.bytes /= plan.outer;
    // If Feed() may run on a poller, do not wait for other threads.
    const Size most = Size::Of(static_cast<double>(kSerialNanoseconds) * task /
                               kTaskNanoseconds);
    const bool on_poller = FeedNanoseconds(plan, plan.n, 0) <= most;
    schedule = Choose(block, on_poller ? 1 : threads, task);
    return fold;
  }
  schedule.algorithm = Algorithm::kScan;
  schedule.copies = plan.inner > 1;
  schedule.tile = std::min(plan.inner, kMaxTile);
  schedule.block = plan.inner > 1
                       ? BlockFor(schedule.tile, InfoOf(plan.dtype).bytes)
                       : plan.n;
  schedule.sort_pieces = SortPieces(plan.k, threads, task);
  schedule.threads = static_cast<int>(schedule.sort_pieces);
  return fold;
}

int64_t EstimateNanoseconds(const Plan& plan, const Schedule& schedule) {
  const auto tiles = static_cast<double>(schedule.tiles(plan, plan.slices()));
  double at_once = std::min(static_cast<double>(schedule.threads),
                            tiles * static_cast<double>(schedule.pieces));
  // More threads than this do not sort a row faster, because memory limits the
  // sort: 16 threads sorted 2^22 floats in 18.9 ms (Intel Xeon, model 207).
  constexpr double kSortingThreads = 4;
  if (schedule.algorithm == Algorithm::kSort && schedule.pieces > 1) {
    at_once = std::min(at_once, kSortingThreads);
  }
  return static_cast<int64_t>(TypicalNanoseconds(plan) / at_once);
}

std::string_view NameOf(const Schedule& schedule) {
  static constexpr std::array<std::array<std::string_view, 4>, 4> kNames = {{
      {"short-rows", "", "short-rows-copied"},
      {"scan", "scan-split", "scan-copied", "scan-copied-split"},
      {"sort", "sort-split", "sort-copied", "sort-copied-split"},
      {"columns", "columns-split"},
  }};
  return kNames[static_cast<size_t>(schedule.algorithm)]
               [(schedule.copies ? 2 : 0) + (schedule.pieces > 1 ? 1 : 0)];
}

}  // namespace topk::cpu
