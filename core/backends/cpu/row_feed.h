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
// than k elements exceed a bound, counting detects this, and the bound is
// dropped. If too many elements exceed it, e.g. because the row ascends,
// frequent reselections reveal this, and the rest of the row gets a new bound.
// No order of the elements is therefore slow.
//
// A row is read with one bound after another, until k elements exceed the
// bound. The first bound is the hint from the previous row. Then come the
// bounds of a sample, each lower than the one before. The last read has no
// bound. A piece that reselects too often during a read runs out of patience.
// The rest of the piece is then fed like a new row, with twice the patience.
//
// Without patience, a million ascending f32 take twice as long. Without hints,
// many rows of 131072 elements take 1.5 times as long.
//
// Elements in shared memory may change between reads. The result is then
// unspecified, but safe: no read relies on the counts of an earlier read, a
// selection always ends with k candidates, and each bound is tried once.
//
// Costs: the read, about 10 ns for each of the 1.1 k to 3 k candidates, and
// sorting the candidates. Memory: 2 k candidates for each piece. Tests:
// unit/row_feed_test.cc, unit/long_slices_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/bound.h"
#include "core/backends/cpu/chooser.h"
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
  using Selections = std::span<Selection<Key>>;

  /// `kernels` and `encoder` must outlive this object. No element's key exceeds
  /// `best_key`. Once a selection's buffer has filled up `patience` times, or
  /// fewer in a short part of a row, the rest is sampled to find a better
  /// bound. REQUIRES: patience >= 1.
  RowFeed(const Kernels<Key, kFloat>& kernels,
          const SortKeyEncoder<Key, kFloat>& encoder, int64_t k,
          Key best_key = static_cast<Key>(~Key{0}), int64_t patience = 8)
      : kernels_(kernels),
        encoder_(encoder),
        k_(k),
        best_key_(best_key),
        patience_(patience),
        bounds_(kernels, encoder) {}

  /// Divides a whole row among the selections, which run in parallel and have
  /// no bound yet. Gets a bound from the previous row or from a sample of this
  /// row, to skip most elements.
  void FeedRow(const std::byte* elements, int64_t count,
               Selections selections) {
    const Segment row = {elements, count, 0};
    std::optional<Held> held;
    if (k_ <= count / 2) {
      if (hint_.wait > 0) {
        --hint_.wait;
      } else if (hint_.bound) {
        held = Try(*hint_.bound, row, patience_, bounds_, selections);
        if (!held) hint_.wait = kWait;
      }
    }
    if (!held) held = FeedSampled(row, patience_, bounds_, selections);
    hint_.bound = NextHint(held, selections);
  }

  /// Feeds the next part of a row to its selection. If the selection has no
  /// bound yet, gets a bound from a sample of this part.
  void FeedPart(const Segment& part, Selection<Key>& selection) {
    const Selections one(&selection, 1);
    if (!selection.bounded()) {
      FeedSampled(part, patience_, bounds_, one);
      return;
    }
    // Have less patience with a short part of a row, which would end first.
    const int64_t fills = part.count / (8 * std::max(k_, int64_t{128}));
    Read(part, std::clamp(fills, int64_t{1}, patience_), bounds_, one);
  }

  /// A bound from the previous row. Consecutive rows are often similar.
  struct Hint {
    std::optional<Key> bound;
    /// The number of rows until the hint is tried again. Set when the hint
    /// fails, because a failure costs an extra read of the row.
    int wait = 0;
  };
  /// The bound that FeedRow() tries first in the next row.
  Hint& hint() { return hint_; }

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
  // A bound that at least k elements of a row exceeded.
  struct Held {
    Key bound;
    int64_t exceeding;
    int64_t reselections;
  };

  // Estimates bounds from a sample of the row. Reads the row once for each
  // bound, from high to low, until k elements exceed the bound. If all bounds
  // fail, reads the row without a bound. Returns the successful bound, if any.
  std::optional<Held> FeedSampled(const Segment& row, int64_t patience,
                                  Bounds<Key, kFloat>& bounds,
                                  Selections selections) const {
    if (k_ <= row.count / 2) {
      bounds.Sample(row.elements, row.count, k_);
      while (const std::optional<Key> reached = bounds.Next()) {
        const auto bound = static_cast<Key>(*reached - 1);
        if (const auto held = Try(bound, row, patience, bounds, selections)) {
          return held;
        }
      }
    }
    Read(row, patience, bounds, selections);
    return std::nullopt;
  }

  // Reads the row, skipping elements that do not exceed `bound`. If fewer than
  // k elements exceed it, drops the row's candidates and returns nullopt.
  std::optional<Held> Try(Key bound, const Segment& row, int64_t patience,
                          Bounds<Key, kFloat>& bounds,
                          Selections selections) const {
    if (selections[0].bounded() && selections[0].bound() >= bound) {
      Read(row, patience, bounds, selections);  // already has a better bound
      return Held{selections[0].bound(), k_, 0};
    }
    Held held = {bound, 0, 0};
    for (Selection<Key>& selection : selections) {
      held.reselections -= selection.reselections();
      selection.TryBound(bound);
    }
    Read(row, patience, bounds, selections);
    for (const Selection<Key>& selection : selections) {
      held.reselections += selection.reselections();
      held.exceeding += selection.Exceeding(bound);
    }
    // If the buffers have filled up (pieces * patience) times, at least k
    // elements exceeded the bound. If Exceeding() finds fewer, another process
    // has changed the elements. Accept the bound, or retries might never end.
    const auto pieces = static_cast<int64_t>(selections.size());
    if (held.exceeding >= k_ || held.reselections >= pieces * patience) {
      return held;
    }
    for (Selection<Key>& selection : selections) {
      selection.GiveBoundUp(static_cast<uint64_t>(row.first));
    }
    return std::nullopt;
  }

  // Divides the row among the selections and reads it once. If a selection's
  // buffer fills up `patience` times, its elements are probably ascending, and
  // its unread elements are sampled for a better bound. A single selection
  // reuses `bounds`, because no more bounds of the old sample will be tried.
  void Read(const Segment& row, int64_t patience, Bounds<Key, kFloat>& bounds,
            Selections selections) const {
    const auto pieces = static_cast<int64_t>(selections.size());
    ForEachPiece(pieces, selections[0].cancellation(), [&](int64_t p) {
      const Selections one = selections.subspan(static_cast<size_t>(p), 1);
      const Segment piece =
          row.Part<Key>(p * row.count / pieces, (p + 1) * row.count / pieces);
      const int64_t taken = Scan(piece, patience, one[0]);
      if (taken == piece.count) return;
      Bounds<Key, kFloat> own(kernels_, encoder_);
      FeedSampled(piece.Part<Key>(taken, piece.count), 2 * patience,
                  pieces > 1 ? own : bounds, one);
    });
  }

  // Returns the bound to try first in the next row: the last bound, or a higher
  // bound if far more than k elements exceeded the last bound. Returns nullopt
  // if no bound succeeded, or if the last bound was much too low.
  std::optional<Key> NextHint(const std::optional<Held>& held,
                              Selections selections) const {
    if (!held || held->reselections >= patience_) return std::nullopt;
    if (held->reselections == 0 && selections.size() == 1) {
      const double deviation = std::sqrt(static_cast<double>(k_));
      const int64_t enough = k_ + static_cast<int64_t>(4.5 * deviation) + 5;
      if (held->exceeding > enough + enough / 3) {
        return selections[0].BoundOf(enough);
      }
    }
    return held->bound;
  }

  static constexpr int kWait = 32;

  const Kernels<Key, kFloat>& kernels_;
  const SortKeyEncoder<Key, kFloat>& encoder_;
  const int64_t k_;
  const Key best_key_;
  const int64_t patience_;
  Bounds<Key, kFloat> bounds_;
  Hint hint_;
};

}  // namespace topk::cpu
