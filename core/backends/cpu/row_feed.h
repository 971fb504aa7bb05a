// Selects from long rows, also from rows that arrive one by one: the path of
// every row that is neither short nor sorted as a whole.
//
// Algorithm: estimate a bound from the row (bound.h), scan for the elements
// that exceed it (simd/scan-inl.h), and select from these (selection.h). On
// several threads the row is divided into pieces with one common bound and one
// selection each, which are merged in order. Elements of 8 and 16 bits are
// handled the same way, 64 or 32 per vector; the scan ends early once k of them
// have the greatest possible key.
//
// Why: at most two reads for nearly all inputs, one of them of a sample. A
// bound that fewer than k elements exceed is detected by counting, and dropped.
// A bound that too many elements exceed, e.g. because the row ascends, is
// detected by how often the selection fills up; then the rest of the row gets a
// new bound. So no order of the elements is slow.
//
// The gains of the parts, on AVX-512: without patience, a million ascending f32
// take 2.0 times as long; without hints, 32 rows of 131072 f32 1.5 times and 64
// of f16 1.5 times, but single rows the same.
//
// Elements in shared memory may change between these reads. The result is
// unspecified then, but no read relies on the counts of an earlier one: a
// selection always ends with k candidates, and each bound is tried once.
//
// Costs: the read, about 10 ns for each of the 1.1 to 3 k candidates, and
// sorting them. Memory: 2 k candidates for each piece. Tests:
// unit/row_feed_test.cc, unit/bound_test.cc, unit/long_slices_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/bound.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/selection.h"
#include "core/base/elements.h"

namespace topk::cpu {

/// Offers neighbouring elements to one selection, with the indices first,
/// first + 1, ... Its bound, if it has one, is applied to vectors at a time.
/// Stops after `patience` reselections; returns how many elements it took: all
/// if the selection is cancelled.
template <class Key, bool kFloat>
int64_t FeedRow(const Kernels<Key, kFloat>& kernels,
                const SortKeyEncoder<Key, kFloat>& map,
                const std::byte* elements, int64_t count, int64_t first,
                int64_t patience, Selection<Key>& selection) {
  constexpr Key kOnes = static_cast<Key>(~Key{0});
  constexpr int64_t kPositions = 1024;
  constexpr int64_t kScanMost = kScanBytes / static_cast<int64_t>(sizeof(Key));
  std::array<uint32_t, kPositions> positions;
  const int64_t enough = selection.reselections() + patience;
  int64_t i = 0;
  const auto offer = [&](int64_t at) {
    const Key bits = Load<Key>(elements, at);
    selection.Offer(map(bits), bits, static_cast<uint64_t>(first + at));
  };
  while (i < count && selection.reselections() < enough) {
    if (IsCancelled(selection.cancellation())) return count;
    if (!selection.bounded()) {
      const int64_t end =
          std::min({count, i + selection.room(), i + kBlockElements});
      for (; i < end; ++i) offer(i);
      continue;
    }
    if (selection.bound() == kOnes) return count;  // nothing ranks before those
    const Scanned scanned =
        kernels.scan(ProbeAbove(map, selection.bound()), At<Key>(elements, i),
                     std::min(count - i, kScanMost), positions.data(),
                     std::min(kPositions, selection.room() + kScanSlack));
    for (int64_t p = 0; p < scanned.found; ++p) {
      offer(i + positions[static_cast<size_t>(p)]);
    }
    i += scanned.elements;
  }
  return i;
}

/// The same for all of the elements, however much comes in: when `patience` is
/// at its end, the elements probably rank higher and higher, and a look at all
/// that are left finds a better bound.
template <class Key, bool kFloat>
void FeedPatiently(const Kernels<Key, kFloat>& kernels,
                   const SortKeyEncoder<Key, kFloat>& map,
                   const std::byte* elements, int64_t count, int64_t first,
                   int64_t k, int64_t patience, Selection<Key>& selection) {
  const int64_t taken =
      FeedRow(kernels, map, elements, count, first, patience, selection);
  const int64_t left = count - taken;
  if (left == 0) return;
  const std::byte* rest = At<Key>(elements, taken);
  const auto feed = [&] {
    FeedPatiently(kernels, map, rest, left, first + taken, k, 2 * patience,
                  selection);
  };
  if (k <= left / 2) {
    Bounds<Key, kFloat> bounds(kernels, map);
    bounds.Sample(rest, left, k);
    while (const std::optional<Key> reached = bounds.Next()) {
      const auto bound = static_cast<Key>(*reached - 1);
      if (bound <= selection.bound()) break;
      selection.TryBound(bound);
      const int64_t before = selection.reselections();
      feed();
      // This number of reselections implies that k elements exceeded the bound.
      // If fewer do now, the elements have changed, and retrying might not end.
      if (selection.reselections() - before >= 2 * patience) return;
      if (selection.Exceeding(bound) >= k) return;
      selection.GiveBoundUp(static_cast<uint64_t>(first + taken));
    }
  }
  feed();
}

/// How many reselections of one row are taken for chance.
inline constexpr int64_t kPatience = 8;

/// A bound from the row before: rows that come together are often alike.
template <class Key>
struct Hint {
  std::optional<Key> bound;
  /// For how many rows to go without: a hint that fails costs a read of the
  /// row, which rows that are not alike shall not pay each time.
  int wait = 0;
};

/// Offers a row, or a long run of one, whose first element has the index
/// `first`, cut into as many pieces as there are selections, side by side: with
/// a bound from a look at all of it beforehand. `hint` is a bound that did for
/// the row before, if there is one, and is kept for the next.
template <class Key, bool kFloat>
void FeedWithBounds(const Kernels<Key, kFloat>& kernels,
                    const SortKeyEncoder<Key, kFloat>& map,
                    const std::byte* elements, int64_t count, int64_t first,
                    int64_t k, Bounds<Key, kFloat>& bounds, Hint<Key>& hint,
                    std::span<Selection<Key>> selections) {
  const auto pieces = static_cast<int64_t>(selections.size());
  const auto feed = [&] {
    ForEachPiece(pieces, selections[0].cancellation(), [&](int64_t p) {
      const int64_t begin = p * count / pieces;
      FeedPatiently(kernels, map, At<Key>(elements, begin),
                    (p + 1) * count / pieces - begin, first + begin, k,
                    kPatience, selections[static_cast<size_t>(p)]);
    });
  };
  // Feeds with a bound; whether at least k elements exceeded it.
  const auto holds = [&](Key bound) {
    if (selections[0].bounded() && selections[0].bound() >= bound) {
      feed();  // it has a better one
      return true;
    }
    int64_t reselections = 0;
    for (Selection<Key>& selection : selections) {
      reselections -= selection.reselections();
      selection.TryBound(bound);
    }
    feed();
    int64_t came = 0;
    for (const Selection<Key>& selection : selections) {
      reselections += selection.reselections();
      came += selection.Exceeding(bound);
    }
    if (came < k) {
      for (Selection<Key>& selection : selections) {
        selection.GiveBoundUp(static_cast<uint64_t>(first));
      }
      return false;
    }
    // The next row is likely similar and can start with this bound, unless too
    // many elements exceeded it. If more than necessary did, the next bound is
    // the one that k elements plus a few standard deviations exceeded. It is
    // not raised for fewer, because similar rows would raise it until it fails.
    hint.bound = reselections < kPatience ? std::optional(bound) : std::nullopt;
    if (reselections == 0 && pieces == 1) {
      const double deviation = std::sqrt(static_cast<double>(k));
      const int64_t enough = k + static_cast<int64_t>(4.5 * deviation) + 5;
      if (came > enough + enough / 3) {
        hint.bound = selections[0].BoundOf(enough);
      }
    }
    return true;
  };
  if (k <= count / 2) {
    if (hint.wait > 0) {
      --hint.wait;
    } else if (hint.bound) {
      if (holds(*hint.bound)) return;
      constexpr int kWait = 32;
      hint.wait = kWait;
    }
    bounds.Sample(elements, count, k);
    while (const std::optional<Key> reached = bounds.Next()) {
      if (holds(static_cast<Key>(*reached - 1))) return;
    }
  }
  hint.bound.reset();
  feed();
}

}  // namespace topk::cpu
