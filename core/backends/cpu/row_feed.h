// Selects from rows of any length, including rows that arrive in parts. Used
// for scans, and for rows that the short-rows kernel does not complete.
//
// Algorithm: find a likely bound (bound.h), scan for the elements that exceed
// the bound (simd/scan-inl.h), and select from these elements (selection.h).
// With several threads, the row is cut into pieces with a common bound. Each
// piece has a selection, and slices.h merges them in order. Elements of 8 and
// 16 bits are handled the same way, up to 64 or 32 per vector. The scan ends
// early once k elements have the greatest possible key.
//
// Why: nearly all rows are read at most twice, once only for a sample. If fewer
// than k elements exceed a bound, counting detects this, and the row is read
// again with a certain bound. If too many elements exceed a bound, e.g. because
// the row ascends, frequent reselections reveal this, and the rest of the row
// gets a certain bound from another sample. No order of the elements is
// therefore slow. Without these samples, a million ascending f32 take twice as
// long.
//
// The bound of a row is also tried for the next row, which then needs no
// sample, if the scan ended early or somewhat more than k elements exceeded the
// bound. If far more did, the bound is raised first. Without this, many rows of
// 131072 elements would take 1.5 times as long.
//
// Elements in shared memory may change between reads. The result is then
// unspecified, but safe: no read relies on the counts of an earlier read, and a
// selection always ends with k candidates.
//
// Costs: the read, about 10 ns for each of the 1.1 k to 3 k candidates, and
// sorting the candidates. Memory: 2 k candidates for each piece, or k + 128 for
// a small k. Tests: unit/cpu_backend_test.cc, unit/long_slices_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/bound.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/selection.h"
#include "core/base/elements.h"

namespace topk::cpu {

/// Contiguous elements of a slice. Their indices are `first`, `first` + 1, ...
struct Segment {
  const std::byte* elements;
  int64_t count;
  int64_t first;

  /// Returns the elements begin .. end - 1.
  template <class Key>
  Segment Part(int64_t begin, int64_t end) const {
    return {At<Key>(elements, begin), end - begin, first + begin};
  }
};

/// Feeds the elements of rows to Selection objects, which keep the k best.
template <class Key, bool kFloat>
class RowFeed {
 public:
  /// `kernels` and `encoder` must outlive this object. No element's key exceeds
  /// `best_key`.
  RowFeed(const Kernels<Key, kFloat>& kernels,
          const SortKeyEncoder<Key, kFloat>& encoder, int64_t k,
          Key best_key = static_cast<Key>(~Key{0}))
      : kernels_(kernels),
        encoder_(encoder),
        k_(k),
        margin_(static_cast<int64_t>(2 * std::sqrt(static_cast<double>(k)))),
        best_key_(best_key) {}

  /// Divides a whole row among empty selections, which run in parallel. With a
  /// common bound, all selections together get little more than k candidates.
  void FeedRow(const Segment& row, std::span<Selection<Key>> selections) {
    std::optional<Key> bound = std::exchange(previous_bound_, std::nullopt);
    if (!bound) {
      bound = FindBound(row, Confidence::kLikely, selections[0].cancellation());
    }
    if (bound) {
      for (Selection<Key>& selection : selections) {
        selection.RaiseBound(*bound);
      }
    }
    FeedPieces(row, selections);
    if (!bound) return;
    int64_t exceeding = 0;
    int64_t reselections = 0;
    for (const Selection<Key>& selection : selections) {
      exceeding += selection.size();
      reselections += selection.reselections();
    }
    if (exceeding < k_) {
      for (Selection<Key>& selection : selections) selection.Reset();
      FeedPieces(row, selections);
    } else if (IsComplete(selections[0])) {
      previous_bound_ = bound;
    } else if (exceeding >= k_ + margin_ && reselections == 0) {
      const bool low = exceeding > k_ + 5 * margin_ && selections.size() == 1;
      previous_bound_ = low ? selections[0].BoundOf(k_ + 3 * margin_) : bound;
    }
  }

  /// Feeds a row, or the next part of a row, to its selection. Finds a certain
  /// bound if there is none, if most elements exceed the bound of the earlier
  /// parts, and each time that too many elements exceeded the bound.
  void Feed(Segment part, Selection<Key>& selection) const {
    int64_t taken = 0;
    do {
      part = part.template Part<Key>(taken, part.count);
      if (taken > 0 || !selection.bound() || MostEnter(part, selection)) {
        const auto bound =
            FindBound(part, Confidence::kCertain, selection.cancellation());
        if (bound) selection.RaiseBound(*bound);
      }
      taken = Scan(part, selection);
    } while (taken < part.count);
  }

  /// Returns whether a selection has k elements with the best key, so that no
  /// later element can enter.
  bool IsComplete(const Selection<Key>& selection) const {
    return selection.bound() >= best_key_;
  }

 private:
  std::optional<Key> FindBound(const Segment& part, Confidence confidence,
                               const Cancellation* cancellation) const {
    return cpu::FindBound(kernels_, encoder_, part.elements, part.count, k_,
                          confidence, cancellation);
  }

  // Returns whether most elements of the next part of a row seem to exceed the
  // bound of the earlier parts, e.g. because the row ascends.
  bool MostEnter(const Segment& part, const Selection<Key>& selection) const {
    constexpr int64_t kSample = 16;
    if (selection.size() == 0 || part.count < 8 * kSample) return false;
    int64_t entering = 0;
    for (int64_t i = 0; i < kSample; ++i) {
      const Key bits = Load<Key>(part.elements, i * (part.count / kSample));
      entering += encoder_(bits) > *selection.bound();
    }
    return entering > kSample / 2;
  }

  void FeedPieces(const Segment& row,
                  std::span<Selection<Key>> selections) const {
    const auto pieces = static_cast<int64_t>(selections.size());
    ForEachPiece(pieces, selections[0].cancellation(), [&](int64_t p) {
      Feed(row.template Part<Key>(p * row.count / pieces,
                                  (p + 1) * row.count / pieces),
           selections[static_cast<size_t>(p)]);
    });
  }

  // Offers elements to a selection until its buffer has filled up kTimes times.
  // Returns the number of elements read, or part.count if the rest need not be
  // read: after a cancellation, or if the selection is complete.
  int64_t Scan(const Segment& part, Selection<Key>& selection) const {
    constexpr int64_t kTimes = 4;
    constexpr int64_t kPositions = 1024;
    constexpr int64_t kMost = kScanBytes / static_cast<int64_t>(sizeof(Key));
    std::array<uint32_t, kPositions> positions;
    const auto encoder = encoder_;  // local copy: stores may alias members
    const int64_t enough = selection.reselections() + kTimes;
    int64_t i = 0;
    const auto offer = [&](int64_t at) {
      const Key bits = Load<Key>(part.elements, at);
      selection.Offer(encoder(bits), bits,
                      static_cast<uint64_t>(part.first + at));
    };
    while (i < part.count && selection.reselections() < enough) {
      if (IsCancelled(selection.cancellation())) return part.count;
      const std::optional<Key> bound = selection.bound();
      if (!bound) {
        const int64_t end =
            std::min({part.count, i + selection.room(), i + kBlockElements});
        for (; i < end; ++i) offer(i);
        continue;
      }
      if (IsComplete(selection)) return part.count;
      const Scanned scanned =
          kernels_.scan(encoder, *bound, At<Key>(part.elements, i),
                        std::min(part.count - i, kMost), positions.data(),
                        std::min(kPositions, selection.room() + kScanSlack));
      for (int64_t p = 0; p < scanned.found; ++p) {
        offer(i + positions[static_cast<size_t>(p)]);
      }
      i += scanned.elements;
    }
    return i;
  }

  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat>& encoder_;
  const int64_t k_;
  // In random rows, two standard deviations of the number of elements that
  // exceed a bound.
  const int64_t margin_;
  const Key best_key_;
  // The bound of the previous row, unless the next row must not try it.
  std::optional<Key> previous_bound_;
};

}  // namespace topk::cpu
