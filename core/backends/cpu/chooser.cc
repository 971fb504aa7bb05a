#include "core/backends/cpu/chooser.h"

#include <algorithm>
#include <array>

#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/kernels.h"

namespace topk::cpu {
namespace {

// Of the second cache, what the state of a tile of columns may take.
constexpr int64_t kTileBytes = int64_t{1} << 19;
// Narrower tiles read too little of each page.
constexpr int64_t kMinTile = 256;
// Of the second cache, what a tile that is transposed may take, and how many
// columns it has: fewer read too little of each page, more gained nothing.
constexpr int64_t kTransposedBytes = int64_t{1} << 19;
constexpr int64_t kMinTransposed = 16;
constexpr int64_t kMaxTransposed = 128;
// Narrow tensors are folded to about this width.
constexpr int64_t kFoldWidth = 64;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

Algorithm AlgorithmFor(const Plan& plan);

// Roughly what a unit costs on the slower of the machines measured.
double UnitNanoseconds(Algorithm algorithm, const Plan& plan, int64_t tile) {
  const auto n = static_cast<double>(plan.n);
  const auto k = static_cast<double>(plan.k);
  const auto bytes = static_cast<double>(InfoOf(plan.dtype).bytes);
  // The cost of unpacking the elements of a column or a row.
  const double unpack = InfoOf(plan.dtype).packed() ? n * 0.15 : 0;
  switch (algorithm) {
    case Algorithm::kTransposed: {
      const Plan rows = RowsOfTile(plan, tile);
      return static_cast<double>(tile) *
             (UnitNanoseconds(AlgorithmFor(rows), rows, 1) + n * 0.3 + k * 3);
    }
    case Algorithm::kShortRows:
      return 60 + n * bytes * 0.05 + unpack;
    case Algorithm::kScan:
      return 300 + n * bytes * 0.012 + unpack + k * 16;
    case Algorithm::kSort:
      return 100 + n * bytes * 2;
    case Algorithm::kStrided:
      return 300 + n * 2 + k * 10;
    case Algorithm::kColumns:
      return static_cast<double>(tile) *
             (n * bytes * (0.04 + 0.012 * k) + k * 20);
    default:
      return static_cast<double>(tile) * (n * bytes * 0.1 + unpack + k * 40);
  }
}

Algorithm AlgorithmFor(const Plan& plan) {
  if (CanRun(Algorithm::kTransposed, plan) &&
      (!CanRun(Algorithm::kColumns, plan) || plan.k >= TransposedFromK(plan))) {
    return Algorithm::kTransposed;
  }
  for (const Algorithm first :
       {Algorithm::kNothing, Algorithm::kColumns, Algorithm::kScanColumns,
        Algorithm::kShortRows}) {
    if (CanRun(first, plan)) return first;
  }
  // Above a half of n, of bytes above a quarter, choosing first does not pay.
  const int64_t fraction = InfoOf(plan.dtype).bytes == 1 ? 4 : 2;
  if (plan.k > plan.n / fraction && CanRun(Algorithm::kSort, plan)) {
    return Algorithm::kSort;
  }
  return CanRun(Algorithm::kScan, plan) ? Algorithm::kScan
                                        : Algorithm::kStrided;
}

}  // namespace

int64_t SortPieces(int64_t k, int threads, double task) {
  constexpr double kSortNanoseconds = 4;  // a candidate
  const auto useful =
      static_cast<int64_t>(static_cast<double>(k) * kSortNanoseconds / task);
  return std::clamp(useful, int64_t{1}, int64_t{threads});
}

int64_t TransposedFromK(const Plan& plan) {
  const int64_t bytes = InfoOf(plan.dtype).bytes;
  int64_t k = 2 * bytes + 1;
  while (32 * k * k < plan.n * bytes) ++k;
  return k;
}

Plan RowsOfTile(const Plan& plan, int64_t columns) {
  const auto packed = [columns](int64_t length, DType type) {
    const int64_t bytes = columns * length * InfoOf(type).bytes;
    return Layout{{length, 1}, bytes, true};
  };
  Plan rows = plan;
  rows.outer = columns;
  rows.inner = 1;
  rows.shape = {columns, plan.n};
  rows.axis = 1;
  rows.input = packed(plan.n, plan.dtype);
  rows.values = packed(plan.k, plan.dtype);
  rows.indices = packed(plan.k, plan.index_type);
  return rows;
}

bool CanRun(Algorithm algorithm, const Plan& plan) {
  const int bytes = InfoOf(plan.dtype).bytes;
  const bool empty = plan.slices() == 0;
  const bool columns = !empty && plan.input.packed && plan.inner > 1;
  const bool rows = !empty && !columns;
  const bool together =
      rows && plan.input.strides[static_cast<size_t>(plan.axis)] == 1;
  const bool counts = plan.n < int64_t{1} << 32;  // in 32 bits
  switch (algorithm) {
    case Algorithm::kNothing:
      return empty;
    case Algorithm::kShortRows:
      return together && plan.input.packed && plan.values.packed &&
             plan.indices.packed && plan.n <= kShortN && plan.k <= kShortK;
    case Algorithm::kScan:
      return together;
    case Algorithm::kSort:
      return together && counts;
    case Algorithm::kStrided:
      return rows && !InfoOf(plan.dtype).packed();
    case Algorithm::kColumns:
      return columns && bytes >= 4 && plan.k <= kColumnK &&
             (counts || bytes == 8);
    case Algorithm::kTransposed:
      return columns && !InfoOf(plan.dtype).packed() &&
             plan.n * bytes <= kTransposedBytes / kMinTransposed;
    case Algorithm::kScanColumns:
      return columns;
  }
  return false;
}

Schedule Choose(const Plan& plan, int threads, double task) {
  const double serial =
      static_cast<double>(kSerialNanoseconds) * task / kTaskNanoseconds;
  const bool small = RunNanoseconds(plan) <= Size::Of(serial);
  return Cut(AlgorithmFor(plan), plan, small ? 1 : threads, task);
}

Schedule Cut(Algorithm algorithm, const Plan& plan, int threads, double task) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  if (algorithm == Algorithm::kNothing) return schedule;
  if (schedule.algorithm == Algorithm::kTransposed) {
    const int64_t wanted = CeilDivide(threads, plan.outer);
    schedule.tile = std::clamp(
        std::min(kTransposedBytes / (plan.n * InfoOf(plan.dtype).bytes),
                 CeilDivide(plan.inner, wanted)),
        kMinTransposed, kMaxTransposed);
    schedule.tile = std::min(schedule.tile, plan.inner);
  } else if (schedule.columns()) {
    const int64_t column_bytes = 2 * plan.k * InfoOf(plan.dtype).bytes;
    schedule.tile = std::clamp(kTileBytes / column_bytes, int64_t{64},
                               std::max(plan.inner, int64_t{64}));
    // Enough tiles for the threads, if they stay wide.
    const int64_t wanted = CeilDivide(threads, plan.outer);
    schedule.tile = std::min(
        schedule.tile, std::max(CeilDivide(plan.inner, wanted), kMinTile));
    schedule.tile = std::min(schedule.tile, plan.inner);
    if (schedule.algorithm == Algorithm::kColumns) {
      schedule.row_factor =
          std::clamp(kFoldWidth / plan.inner, int64_t{1},
                     std::max(plan.n / (8 * plan.k), int64_t{1}));
    }
  }
  const int64_t units = schedule.units(plan);
  const double cost = UnitNanoseconds(schedule.algorithm, plan, schedule.tile);
  const double all = cost * static_cast<double>(units);
  if (threads == 1 || all < 2 * task) {
    schedule.grain = units;
    return schedule;
  }
  schedule.run_inline = false;
  schedule.grain = static_cast<int64_t>(
      std::clamp(task / cost, 1.0, static_cast<double>(units)));
  if (units < threads) {
    // A few long units: each is cut, so that all threads have a piece.
    const auto useful = static_cast<int64_t>(cost / task);
    int64_t most = plan.n / schedule.row_factor / plan.k;
    if (schedule.algorithm == Algorithm::kSort) most = plan.n;
    if (schedule.algorithm == Algorithm::kStrided ||
        schedule.algorithm == Algorithm::kTransposed) {
      most = 1;
    }
    schedule.pieces =
        std::clamp(std::min({CeilDivide(threads, units), useful, most}),
                   int64_t{1}, plan.n);
  }
  schedule.sort_pieces = schedule.algorithm == Algorithm::kSort
                             ? schedule.pieces
                             : SortPieces(plan.k, threads, task);
  return schedule;
}

int64_t EstimateNanoseconds(const Plan& plan, const Schedule& schedule,
                            int threads) {
  if (schedule.algorithm == Algorithm::kNothing) return 0;
  const int64_t units = schedule.units(plan);
  const double all = UnitNanoseconds(schedule.algorithm, plan, schedule.tile) *
                     static_cast<double>(units);
  const double at_once =
      schedule.run_inline ? 1
                          : std::min(static_cast<double>(threads),
                                     static_cast<double>(units) *
                                         static_cast<double>(schedule.pieces));
  return static_cast<int64_t>(std::min(all / at_once, 9e18));
}

std::string_view NameOf(const Schedule& schedule) {
  constexpr std::array<std::array<std::string_view, 2>, 8> kNames = {{
      {"nothing", "nothing"},
      {"short-rows", "short-rows"},
      {"scan", "scan-split"},
      {"sort", "sort-split"},
      {"strided", "strided"},  // never cut
      {"columns", "columns-split"},
      {"transposed", "transposed"},  // never cut
      {"scan-columns", "scan-columns-split"},
  }};
  return kNames[static_cast<size_t>(schedule.algorithm)]
               [schedule.pieces > 1 ? 1 : 0];
}

}  // namespace topk::cpu
