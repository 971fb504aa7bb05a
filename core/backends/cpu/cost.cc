#include "core/backends/cpu/cost.h"

#include <algorithm>
#include <limits>

#include "core/backends/cpu/column_feed.h"
#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/transposed.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

// The memory of a computation beyond input and output, in bytes.
template <class Key, bool kFloat>
class Memory {
 public:
  Memory(const Plan& plan, const Schedule& schedule)
      : plan_(plan), schedule_(schedule) {}

  // The memory of one task's runner.
  Size OfRunner() const {
    const Size k = plan_.k;
    const int64_t n = plan_.n;
    switch (schedule_.algorithm) {
      case Algorithm::kNothing:
        return 0;
      case Algorithm::kSort:
        return SliceWriter<Key>::Bytes(plan_, n, schedule_.sort_pieces) +
               OfUnpacked(n);
      case Algorithm::kColumns: {
        const int64_t columns = schedule_.tile * schedule_.row_factor;
        const Size state =
            Size(ColumnState<Key>::Elements(columns, plan_.k)) * sizeof(Key);
        constexpr int64_t kPlace = 16;
        constexpr int64_t kPart = int64_t{2} * 16;  // a vector that grows
        return schedule_.pieces * (state + schedule_.row_factor * k * kPart) +
               Size(schedule_.tile) * kPlace;
      }
      case Algorithm::kTransposed: {
        const Plan rows = RowsOfTile(plan_, schedule_.tile);
        return TransposedRunner<Key, kFloat>::Bytes(rows) +
               Memory(rows, Choose(rows, 1)).OfRunner();
      }
      case Algorithm::kScanColumns:
        return schedule_.pieces *
                   ColumnSelections<Key, kFloat>::Bytes(
                       schedule_.tile, plan_.k, ColumnSlackFor(plan_.k), n) +
               SliceWriter<Key>::Bytes(plan_, plan_.k, schedule_.sort_pieces) +
               schedule_.pieces *
                   OfUnpacked(std::max(schedule_.tile, kBlockColumns));
      case Algorithm::kShortRows:
        return OfRow() + OfUnpacked(std::max(n, kUnpackedBytes));
      default:
        return OfRow();
    }
  }

  static Size OfFold(const Plan& plan) {
    if (plan.slices() == 0) return 0;  // whatever its shape
    // As many as any number of threads makes.
    const int64_t pieces = SortPieces(plan.k, std::numeric_limits<int>::max());
    return ColumnSelections<Key, kFloat>::Bytes(plan.inner, plan.k,
                                                FoldSlackFor(plan), plan.n) +
           RowFeed<Key, kFloat>::Bytes(plan.n, plan.k) +
           SliceWriter<Key>::Bytes(plan, plan.k, pieces);
  }

 private:
  Size OfRow() const {
    const int64_t k = plan_.k;
    const int64_t n = plan_.n;
    return schedule_.pieces * Selection<Key>::Bytes(k, SlackFor(k), n) +
           RowFeed<Key, kFloat>::Bytes(n, k) +
           SliceWriter<Key>::Bytes(plan_, k, schedule_.sort_pieces);
  }

  Size OfUnpacked(Size count) const {
    return InfoOf(plan_.dtype).packed() ? count : 0;
  }

  const Plan& plan_;
  const Schedule& schedule_;
};

Size RunBytes(const Plan& plan, const Schedule& schedule, int threads) {
  const int64_t units = schedule.units(plan);
  const int64_t runners =
      schedule.run_inline ? 1 : std::min<int64_t>(units, threads);
  return PackedValues::Bytes(plan) +
         runners *
             WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                                          const SortKeyEncoder<Key, kFloat>&) {
               return Memory<Key, kFloat>(plan, schedule).OfRunner();
             });
}

Size FoldBytes(const Plan& plan) {
  return PackedValues::Bytes(plan) +
         WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                                      const SortKeyEncoder<Key, kFloat>&) {
           return Memory<Key, kFloat>::OfFold(plan);
         });
}

// The constants are about twice those of the machines measured, for the data
// that takes longest; unit/cost_property_test.cc holds them against runs. They
// depend on the layout, not on the algorithm, whose choice would make the cost
// of a larger request the smaller.

// Columns whose elements are too small for the state of simd/columns-inl.h.
bool AreSmallColumns(const Plan& plan) {
  return plan.inner > 1 && plan.input.packed && InfoOf(plan.dtype).bytes < 4;
}

// Whether each column may have its own selection.
bool HaveSelections(const Plan& plan, bool fold) {
  return fold ||
         (AreSmallColumns(plan) && !CanRun(Algorithm::kTransposed, plan));
}

// An element that is read, in nanoseconds.
double ElementNanoseconds(const Plan& plan, bool fold) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const auto bytes = static_cast<double>(type.bytes);
  const double row = bytes * 0.08 + (type.packed() ? 2 : 0);
  if (!plan.input.packed) {
    // Elements that do not lie together may each miss the cache.
    return plan.input.strides[static_cast<size_t>(plan.axis)] == 1 ? row : 8;
  }
  if (plan.inner == 1) return row;
  if (HaveSelections(plan, fold)) {
    return 8 + 10 / static_cast<double>(plan.inner) +
           (type.packed() ? 5 : bytes * 0.4);
  }
  if (AreSmallColumns(plan)) return row + 2;
  int64_t k = std::min(plan.k, kColumnK);
  if (CanRun(Algorithm::kTransposed, plan)) {
    k = std::min(k, TransposedFromK(plan));
  }
  return bytes * (0.2 + 0.04 * static_cast<double>(k));
}

// A selected element: its candidates, their sort, and its place in the output.
// In a long slice, or with many selections, each of these may miss the cache.
double SelectedNanoseconds(const Plan& plan, bool fold) {
  const DTypeInfo& type = InfoOf(plan.dtype);
  const double misses = HaveSelections(plan, fold)
                            ? 70
                            : std::min(70.0, static_cast<double>(plan.n) / 8);
  return 30 + misses + 5 * static_cast<double>(type.bytes) +
         (type.packed() ? 15 : 0);
}

// Any slice: a short row of equal elements takes the way of long ones.
double SliceNanoseconds(const Plan& plan, bool fold) {
  if (HaveSelections(plan, fold)) return 1000;
  return std::min(1000.0, 250 + 25 * static_cast<double>(plan.n));
}

// How many elements of a slice are looked at.
Size ScannedElements(const Plan& plan) {
  const bool repeated = plan.input.strides[static_cast<size_t>(plan.axis)] == 0;
  return repeated ? plan.k : plan.n;
}

Size Nanoseconds(const Plan& plan, bool fold) {
  if (plan.slices() == 0) return 0;
  const double slice =
      SliceNanoseconds(plan, fold) +
      static_cast<double>(ScannedElements(plan).value()) *
          ElementNanoseconds(plan, fold) +
      static_cast<double>(plan.k) * SelectedNanoseconds(plan, fold);
  return Size::Of(static_cast<double>(plan.slices()) * slice);
}

}  // namespace

Size RunNanoseconds(const Plan& plan) {
  return CostOfOutputs(plan).nanoseconds + Nanoseconds(plan, false);
}

Cost RunCost(const Plan& plan, const Schedule& schedule, int threads) {
  Cost cost = CostOfOutputs(plan);
  if (schedule.algorithm == Algorithm::kNothing) return cost;
  cost.working_bytes = RunBytes(plan, schedule, threads);
  cost.nanoseconds = RunNanoseconds(plan);
  return cost;
}

Cost FoldCost(const Plan& plan) {
  Cost cost = CostOfOutputs(plan);
  cost.working_bytes = FoldBytes(plan);
  // The selections of all columns take new memory.
  constexpr int64_t kCandidateBytes = 24;
  cost.nanoseconds +=
      Nanoseconds(plan, true) +
      ZeroFillNanoseconds((plan.slices() == 0 ? Size(0) : Size(plan.inner)) *
                          2 * plan.k * kCandidateBytes);
  return cost;
}

Size FeedNanoseconds(const Plan& plan, Size bytes) {
  constexpr int64_t kEveryPiece = 500;
  if (plan.slices() == 0) return kEveryPiece;
  const int64_t elements = (bytes * 8).value() / InfoOf(plan.dtype).bits + 1;
  // Each column may fill its buffer, and each that the piece completes is
  // written; a piece of few elements meets few columns.
  const int64_t columns = std::min(plan.inner, elements);
  const int64_t blocks = elements / (Size(plan.n) * plan.inner).value() + 1;
  const double slices =
      static_cast<double>(columns) * static_cast<double>(blocks);
  return kEveryPiece + Size::Of(static_cast<double>(elements) *
                                    ElementNanoseconds(plan, true) +
                                slices * (SliceNanoseconds(plan, true) +
                                          static_cast<double>(plan.k) *
                                              SelectedNanoseconds(plan, true)));
}

}  // namespace topk::cpu
