#include "core/backends/cpu/cost.h"

#include <algorithm>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/selection.h"

namespace topk::cpu {
namespace {

// The constants below are about twice the times measured for the slowest data.
// Tests: unit/cost_property_test.cc. The cost does not depend on the algorithm,
// so that a larger request never has a lower cost.

// Returns the time to read an element, in nanoseconds.
double ElementNanoseconds(const Plan& plan, bool fold) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const auto bytes = static_cast<double>(type.bytes);
  const double row = bytes * 0.08 + (type.packed() ? 2 : 0);
  if (!plan.input.contiguous) {
    // If the elements are not contiguous, each of them may miss the cache.
    return plan.input.strides[static_cast<size_t>(plan.axis)] == 1 ? row : 8;
  }
  if (plan.inner == 1) return row;
  if (fold) {
    return 3 + 10 / static_cast<double>(plan.inner) +
           (type.packed() ? 5 : bytes * 0.2);
  }
  if (type.bytes < 4) return row + 2;  // too small for simd/columns-inl.h
  const int64_t k = std::min({plan.k, kColumnK, CopiedFromK(plan)});
  return bytes * (0.2 + 0.04 * static_cast<double>(k));
}

// Returns the time, in nanoseconds, to collect, sort and write one selected
// element. In long slices and in streams, each access may miss the cache.
double SelectedNanoseconds(const Plan& plan, bool fold) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const double misses =
      std::min(70.0, static_cast<double>(plan.n) * (fold ? 8 : 0.125));
  return 30 + misses + 5 * static_cast<double>(type.bytes) +
         (type.packed() ? 15 : 0);
}

// Returns an upper bound on the overhead per slice, in nanoseconds. The worst
// case is a short row of equal elements, which is processed like a long row.
double SliceNanoseconds(const Plan& plan) {
  if (plan.n == 1 && plan.input.contiguous) return 120;
  return std::min(1000.0, 250 + 25 * static_cast<double>(plan.n));
}

// Returns the overhead of all slices, in nanoseconds. With kColumns, the first
// kJoinedColumns columns cost as much as rows, and further columns cost less. A
// wider tensor therefore never has a lower cost.
double FixedNanoseconds(const Plan& plan, bool fold) {
  constexpr double kColumn = 60;
  // In a stream, slices of up to this length are buffered whole for kColumns.
  constexpr int64_t kCollected = 256;
  const int64_t bytes = InfoOf(plan.dtype).bytes;
  const bool columns = (!fold || plan.n <= kCollected) &&
                       plan.input.contiguous && bytes >= 4 &&
                       plan.k <= 2 * bytes;
  const int64_t rows =
      columns ? std::min(plan.inner, kJoinedColumns) : plan.inner;
  return static_cast<double>(plan.outer) *
         (static_cast<double>(rows) * SliceNanoseconds(plan) +
          static_cast<double>(plan.inner - rows) * kColumn);
}

Size Nanoseconds(const Plan& plan, bool fold) {
  const double slice =
      static_cast<double>(plan.n) * ElementNanoseconds(plan, fold) +
      static_cast<double>(plan.k) * SelectedNanoseconds(plan, fold);
  return Size::Of(FixedNanoseconds(plan, fold) +
                  static_cast<double>(plan.slices()) * slice);
}

// Returns the memory in which sub-byte values are collected before they are
// packed (unpacked.h).
Size UnpackedBytes(const Plan& plan) {
  return InfoOf(plan.dtype).packed() && plan.wants_values
             ? plan.output_elements()
             : 0;
}

// Returns an upper bound on the memory of a ColumnRunner or a SliceRunner.
// `selections` is the number of slices whose selections exist at the same time.
Size RunnerBytes(const Plan& plan, const Schedule& schedule,
                 int64_t selections) {
  const Size bytes = InfoOf(plan.dtype).bytes;
  const Size k = plan.k;
  const Size pieces = schedule.pieces;
  if (schedule.algorithm == Algorithm::kColumns) {
    // Each piece keeps k keys and k indices of each column, and one bound.
    constexpr int64_t kMaxBlock = kVectorBytes / 4;
    const Size columns = Size(schedule.tile) * schedule.row_factor + kMaxBlock;
    // The candidates of a slice, in an array that doubles its size.
    constexpr int64_t kCandidateBytes = 2 * 16;
    return pieces * (columns * (2 * k + 1) * bytes +
                     schedule.row_factor * k * kCandidateBytes);
  }
  const Size n = plan.n;
  const bool sorts = schedule.algorithm == Algorithm::kSort;
  // Pieces of slices that are read in several blocks have their own memory.
  const Size readers = schedule.block >= n ? 1 : pieces;
  Size total;
  if (schedule.copies) {
    const int copies = plan.input.packed && plan.inner > 1 ? 2 : 1;
    total += readers * schedule.tile * std::min(Size(schedule.block), n) *
             bytes * copies;
  }
  if (schedule.stages) {
    total += schedule.tile * k * (bytes + InfoOf(plan.index_type).bytes);
  }
  // The input and the output of the sort, and its counters (rank_sort.h).
  if (const Size sorted = sorts ? n : k; sorted > kMaxRankCount) {
    total += 2 * sorted * std::max(2 * bytes, Size(8)) +
             Size(schedule.sort_pieces) * 1024;
  }
  if (sorts) return total;
  // The group maxima of a sample (bound.h).
  const Size sampled = std::min(
      n, std::max(4 * k,
                  std::clamp(Size(n.value() / 64), Size(8192), Size(65536))));
  const Size maxima = std::max(Size(4096), std::min(12 * k + 8, 2 * sampled));
  total += pieces * maxima * bytes;
  // The bounds of the columns of a tile, and the columns that a scan finds.
  total += readers * (schedule.tile + Size(kScanSlack)) * (bytes + 4);
  constexpr int64_t kFixedBytes = 512;
  const Size candidates =
      SelectionCapacity(plan.k, plan.n, schedule.selections(plan) > 1);
  return total +
         pieces * selections * (candidates * (bytes + 16) + kFixedBytes);
}

// Returns an upper bound on the memory of RunTiles() for all slices.
Size TilesBytes(const Plan& plan, const Schedule& schedule) {
  const int64_t runners =
      std::min<int64_t>(schedule.tiles(plan, plan.slices()), schedule.threads);
  return runners * RunnerBytes(plan, schedule, schedule.selections(plan));
}

}  // namespace

Size RunNanoseconds(const Plan& plan) {
  return CostOfOutputs(plan).nanoseconds + Nanoseconds(plan, false);
}

Cost RunCost(const Plan& plan, const Schedule& schedule) {
  Cost cost = CostOfOutputs(plan);
  cost.working_bytes = UnpackedBytes(plan) + TilesBytes(plan, schedule);
  cost.nanoseconds = RunNanoseconds(plan);
  return cost;
}

Cost FoldCost(const FoldPlan& fold) {
  const auto& [plan, positions, schedule] = fold;
  Cost cost = CostOfOutputs(plan);
  cost.working_bytes =
      UnpackedBytes(plan) +
      Size(positions) * plan.inner * InfoOf(plan.dtype).bytes +
      (positions == plan.n ? TilesBytes(plan, schedule)
                           : RunnerBytes(plan, schedule, plan.inner));
  constexpr int64_t kCandidateBytes = 24;
  // Include the time to zero the memory of all selections.
  cost.nanoseconds +=
      Nanoseconds(plan, true) +
      ZeroFillNanoseconds(Size(plan.inner) *
                          std::min(2 * Size(plan.k) + 16, Size(plan.n)) *
                          kCandidateBytes);
  return cost;
}

Size FeedNanoseconds(const Plan& plan, int64_t positions, Size bytes) {
  constexpr int64_t kEveryPiece = 500;
  const int64_t length = (bytes * 8).value() / InfoOf(plan.dtype).bits + 1;
  const int64_t blocks = length / (Size(plan.n) * plan.inner).value() + 1;
  // In the worst case, Feed() also processes all buffered elements and finishes
  // the slices that an earlier call began.
  const Size elements = length + Size(positions) * plan.inner;
  const double slices =
      static_cast<double>(plan.inner) * static_cast<double>(blocks);
  return kEveryPiece + Size::Of(static_cast<double>(elements.value()) *
                                    ElementNanoseconds(plan, true) +
                                slices * (SliceNanoseconds(plan) +
                                          static_cast<double>(plan.k) *
                                              SelectedNanoseconds(plan, true)));
}

}  // namespace topk::cpu
