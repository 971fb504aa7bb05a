// Selects from rows of any length, including rows that arrive in parts. Used
// for every row that is not sorted as a whole, except the rows that the
// short-rows kernel completes.
//
// Algorithm: estimate a bound from the row (bound.h), scan for the elements
// that exceed the bound (simd/scan-inl.h), and select from these elements
// (selection.h). With several threads, the row is cut into pieces with a common
// bound. Each piece has a selection, and the selections are merged in order.
// Elements of 8 and 16 bits are handled the same way, up to 64 or 32 per
// vector. The scan ends early once k elements have the greatest possible key.
//
// Why: nearly all rows are read at most twice, once only for a sample. If fewer
// than k elements exceed a bound, counting detects this, and the row is read
// again without a bound. If too many elements exceed it, e.g. because the row
// ascends, frequent reselections reveal this, and the rest of the row gets a
// new bound from a sample. The scan's patience, the number of reselections
// until then, doubles each time. No order of the elements is therefore slow.
//
// A row of many is first read with the bound of the previous row, as a hint.
//
// Without patience, a million ascending f32 take twice as long. Without hints,
// many rows of 131072 elements take 1.5 times as long.
//
// Elements in shared memory may change between reads. The result is then
// unspecified, but safe: no read relies on the counts of an earlier read, a
// selection always ends with k candidates, and each sample is tried once.
//
// Costs: the read, about 10 ns for each of the 1.1 k to 3 k candidates, and
// sorting the candidates. Memory: 2 k candidates for each piece. Tests:
// unit/row_feed_test.cc, unit/long_slices_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

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
      : kernels_(kernels), encoder_(encoder), k_(k), best_key_(best_key) {}

  /// Feeds a whole row to an empty selection. Skips most elements by a bound
  /// from the previous row or from a sample of this row.
  void FeedRow(const Segment& row, Selection<Key>& selection) {
    Key hint = kNoBound<Key>;
    if (hint_wait_ > 0) {
      --hint_wait_;
    } else if (k_ <= row.count / 2) {
      hint = hint_;
    }
    const int64_t before = selection.reselections();
    const Key held = Feed(row, selection, hint);
    const int64_t reselections = selection.reselections() - before;
    hint_ = reselections < kPatience ? held : kNoBound<Key>;
    if (hint_ == kNoBound<Key> || reselections > 0) return;
    // Raise the bound if far more than k elements exceeded it.
    const double deviation = std::sqrt(static_cast<double>(k_));
    const int64_t enough = k_ + static_cast<int64_t>(4.5 * deviation) + 5;
    if (selection.size() > enough + enough / 3) {
      hint_ = selection.BoundOf(enough);
    }
  }

  /// Divides a whole row among empty selections, which run in parallel. If
  /// fewer than k elements exceed the common bound, reads each piece again with
  /// a bound of its own. With a common bound, the pieces have about k
  /// candidates in total instead of k each.
  void FeedPieces(const Segment& row, std::span<Selection<Key>> selections) {
    const auto pieces = static_cast<int64_t>(selections.size());
    const auto feed = [&](int64_t p) {
      RowFeed own(kernels_, encoder_, k_, best_key_);
      own.FeedPart(row.template Part<Key>(p * row.count / pieces,
                                          (p + 1) * row.count / pieces),
                   selections[static_cast<size_t>(p)]);
    };
    const Key bound =
        EstimateBound(kernels_, encoder_, row.elements, row.count, k_, maxima_);
    if (bound != kNoBound<Key>) {
      for (Selection<Key>& selection : selections) selection.TryBound(bound);
    }
    ForEachPiece(pieces, selections[0].cancellation(), feed);
    if (bound == kNoBound<Key>) return;
    int64_t exceeding = 0;
    for (const Selection<Key>& selection : selections) {
      exceeding += selection.Exceeding(bound);
    }
    if (exceeding >= k_) return;
    for (Selection<Key>& selection : selections) selection.Reset();
    ForEachPiece(pieces, selections[0].cancellation(), feed);
  }

  /// Feeds the next part of a row to its selection. If the selection has no
  /// bound yet, gets a bound from a sample of this part.
  void FeedPart(const Segment& part, Selection<Key>& selection) {
    Feed(part, selection, kNoBound<Key>);
  }

  /// Returns whether a selection has k elements with the best key, so that no
  /// later element can enter.
  bool IsComplete(const Selection<Key>& selection) const {
    return selection.bounded() && selection.bound() >= best_key_;
  }

  /// Offers elements to a selection until its buffer has filled up `patience`
  /// times. Returns the number of elements read, or part.count if cancelled.
  int64_t Scan(Segment part, int64_t patience,
               Selection<Key>& selection) const {
    constexpr int64_t kPositions = 1024;
    constexpr int64_t kMost = kScanBytes / static_cast<int64_t>(sizeof(Key));
    std::array<uint32_t, kPositions> positions;
    const auto encoder = encoder_;  // local copy: stores may alias members
    const int64_t enough = selection.reselections() + patience;
    int64_t i = 0;
    const auto offer = [&](int64_t at) {
      const Key bits = Load<Key>(part.elements, at);
      selection.Offer(encoder(bits), bits,
                      static_cast<uint64_t>(part.first + at));
    };
    while (i < part.count && selection.reselections() < enough) {
      if (IsCancelled(selection.cancellation())) return part.count;
      if (!selection.bounded()) {
        const int64_t end =
            std::min({part.count, i + selection.room(), i + kBlockElements});
        for (; i < end; ++i) offer(i);
        continue;
      }
      if (IsComplete(selection)) return part.count;
      const Scanned scanned = kernels_.scan(
          ProbeAbove(encoder, selection.bound()), At<Key>(part.elements, i),
          std::min(part.count - i, kMost), positions.data(),
          std::min(kPositions, selection.room() + kScanSlack));
      for (int64_t p = 0; p < scanned.found; ++p) {
        offer(i + positions[static_cast<size_t>(p)]);
      }
      i += scanned.elements;
    }
    return i;
  }

 private:
  /// The number of reselections during a scan after which the rest of a row is
  /// sampled, and the number of rows without a hint after a hint that failed,
  /// which costs an extra read of the row.
  static constexpr int64_t kPatience = 8;
  static constexpr int kHintWait = 32;

  // Offers elements with one bound after another: first with `bound`, if any,
  // then with bounds from samples, and without a bound after a sample failed.
  // Returns the bound that at least k of the elements exceeded, or kNoBound.
  Key Feed(Segment rest, Selection<Key>& selection, Key bound) {
    bool samples = !selection.bounded();
    // Have less patience with few elements, which would end first. When the
    // buffer has filled up twice, at least k elements exceeded the bound.
    int64_t patience = std::clamp(rest.count / (8 * std::max(k_, int64_t{128})),
                                  int64_t{2}, kPatience);
    while (rest.count > 0) {
      const bool sampled = bound == kNoBound<Key> && samples;
      if (sampled) {
        bound = EstimateBound(kernels_, encoder_, rest.elements, rest.count, k_,
                              maxima_);
        if (selection.bounded() && bound <= selection.bound()) {
          bound = kNoBound<Key>;
        }
      }
      const bool tries = bound != kNoBound<Key>;
      if (tries) selection.TryBound(bound);
      const int64_t taken = Scan(rest, patience, selection);
      if (taken < rest.count) {
        // At least k elements exceeded the bound, and the rest needs a better
        // one. The elements are probably ascending.
        rest = rest.template Part<Key>(taken, rest.count);
        patience *= 2;
        bound = kNoBound<Key>;
        samples = true;
      } else if (tries && selection.Exceeding(bound) < k_) {
        selection.GiveBoundUp(static_cast<uint64_t>(rest.first));
        if (!sampled) hint_wait_ = kHintWait;
        bound = kNoBound<Key>;
        samples = !sampled;
      } else {
        break;
      }
    }
    return bound;
  }

  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat>& encoder_;
  const int64_t k_;
  const Key best_key_;
  std::vector<Key> maxima_;   // of EstimateBound()
  Key hint_ = kNoBound<Key>;  // the bound to try first in the next row
  int hint_wait_ = 0;         // the number of rows until hints are used again
};

}  // namespace topk::cpu
