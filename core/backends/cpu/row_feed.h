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
// A row is read with one bound after the other until one holds: the hint, which
// is from the row before; those of a sample, each lower than the one before;
// none. During a read, a piece that reselects too often is at the end of its
// patience: its rest is fed like a row, with twice the patience.
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

/// Neighbouring elements of a slice, with the indices first, first + 1, ...
struct Stretch {
  const std::byte* elements;
  int64_t count;
  int64_t first;

  /// The elements begin .. end - 1.
  template <class Key>
  Stretch Part(int64_t begin, int64_t end) const {
    return {At<Key>(elements, begin), end - begin, first + begin};
  }
};

/// A bound from the row before: rows that come together are often alike.
template <class Key>
struct Hint {
  std::optional<Key> bound;
  /// For how many rows to go without: a hint that fails costs a read of the
  /// row, which rows that are not alike shall not pay each time.
  int wait = 0;
};

/// Feeds rows to selections of their k best.
template <class Key, bool kFloat>
class RowFeed {
 public:
  using Selections = std::span<Selection<Key>>;

  /// `kernels` and `encoder` outlive this. `patience` is how many reselections
  /// of one row are taken for chance.
  RowFeed(const Kernels<Key, kFloat>& kernels,
          const SortKeyEncoder<Key, kFloat>& encoder, int64_t k,
          int64_t patience = 8)
      : kernels_(kernels),
        encoder_(encoder),
        k_(k),
        patience_(patience),
        bounds_(kernels, encoder) {}

  /// Upper bound on memory, in bytes, for rows of `count` elements that are cut
  /// into `pieces`.
  static Size Bytes(int64_t count, int64_t k, int64_t pieces) {
    return (pieces > 1 ? pieces + 1 : 1) * Bounds<Key, kFloat>::Bytes(count, k);
  }

  /// Offers a row, or a long run of one, cut into as many pieces as there are
  /// selections, side by side: with a bound from a look at all of it
  /// beforehand. `hint`, if there is one, is of the row before, and is kept for
  /// the next.
  void Feed(const Stretch& row, Selections selections,
            Hint<Key>* hint = nullptr) {
    std::optional<Held> held;
    if (hint != nullptr && k_ <= row.count / 2) {
      if (hint->wait > 0) {
        --hint->wait;
      } else if (hint->bound) {
        held = Try(*hint->bound, row, patience_, bounds_, selections);
        if (!held) hint->wait = kWait;
      }
    }
    if (!held) held = FeedSampled(row, patience_, bounds_, selections);
    if (hint != nullptr) hint->bound = NextHint(held, selections);
  }

  /// Offers more elements of a row, without a sample.
  void FeedMore(const Stretch& run, Selection<Key>& selection) {
    Read(run, patience_, bounds_, Selections(&selection, 1));
  }

  /// Offers the next elements of a row. Samples them first if the selection has
  /// no bound yet.
  void FeedNext(const Stretch& run, Selection<Key>& selection) {
    if (selection.bounded()) {
      FeedMore(run, selection);
    } else {
      Feed(run, Selections(&selection, 1));
    }
  }

  /// Offers elements, a vector at a time once the selection has a bound. Stops
  /// after `patience` reselections; returns how many elements it took: all if
  /// the selection is cancelled.
  int64_t Scan(Stretch run, int64_t patience, Selection<Key>& selection) const {
    constexpr Key kOnes = static_cast<Key>(~Key{0});
    constexpr int64_t kPositions = 1024;
    constexpr int64_t kMost = kScanBytes / static_cast<int64_t>(sizeof(Key));
    std::array<uint32_t, kPositions> positions;
    const auto encoder = encoder_;  // a copy, which no candidate can overwrite
    const int64_t enough = selection.reselections() + patience;
    int64_t i = 0;
    const auto offer = [&](int64_t at) {
      const Key bits = Load<Key>(run.elements, at);
      selection.Offer(encoder(bits), bits,
                      static_cast<uint64_t>(run.first + at));
    };
    while (i < run.count && selection.reselections() < enough) {
      if (IsCancelled(selection.cancellation())) return run.count;
      if (!selection.bounded()) {
        const int64_t end =
            std::min({run.count, i + selection.room(), i + kBlockElements});
        for (; i < end; ++i) offer(i);
        continue;
      }
      if (selection.bound() == kOnes) return run.count;  // none ranks before it
      const Scanned scanned = kernels_.scan(
          ProbeAbove(encoder, selection.bound()), At<Key>(run.elements, i),
          std::min(run.count - i, kMost), positions.data(),
          std::min(kPositions, selection.room() + kScanSlack));
      for (int64_t p = 0; p < scanned.found; ++p) {
        offer(i + positions[static_cast<size_t>(p)]);
      }
      i += scanned.elements;
    }
    return i;
  }

 private:
  // A bound that at least k elements exceeded.
  struct Held {
    Key bound;
    int64_t exceeding;
    int64_t reselections;
  };

  // Reads with the bounds of a sample until one has held, else without; returns
  // the one that has.
  std::optional<Held> FeedSampled(const Stretch& row, int64_t patience,
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

  // Reads with a bound, and gives it up if fewer than k elements exceeded it.
  std::optional<Held> Try(Key bound, const Stretch& row, int64_t patience,
                          Bounds<Key, kFloat>& bounds,
                          Selections selections) const {
    if (selections[0].bounded() && selections[0].bound() >= bound) {
      Read(row, patience, bounds, selections);  // it has a better one
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
    // This number of reselections implies that k elements exceeded it. If fewer
    // do now, the elements have changed, and retrying might not end.
    const auto pieces = static_cast<int64_t>(selections.size());
    if (held.exceeding >= k_ || held.reselections >= pieces * patience) {
      return held;
    }
    for (Selection<Key>& selection : selections) {
      selection.GiveBoundUp(static_cast<uint64_t>(row.first));
    }
    return std::nullopt;
  }

  // Reads once, whatever the number of elements that exceed the bound. A piece
  // that runs out of patience probably ranks higher and higher, and a sample of
  // the rest of the piece finds a better bound. A single piece then overwrites
  // `bounds`, because the bound of the whole row has held.
  void Read(const Stretch& row, int64_t patience, Bounds<Key, kFloat>& bounds,
            Selections selections) const {
    const auto pieces = static_cast<int64_t>(selections.size());
    ForEachPiece(pieces, selections[0].cancellation(), [&](int64_t p) {
      const Selections one = selections.subspan(static_cast<size_t>(p), 1);
      const Stretch piece =
          row.Part<Key>(p * row.count / pieces, (p + 1) * row.count / pieces);
      const int64_t taken = Scan(piece, patience, one[0]);
      if (taken == piece.count) return;
      Bounds<Key, kFloat> own(kernels_, encoder_);
      FeedSampled(piece.Part<Key>(taken, piece.count), 2 * patience,
                  pieces > 1 ? own : bounds, one);
    });
  }

  // The next row is likely similar and can start with the bound that held,
  // unless too many elements exceeded it. If more than necessary did, the next
  // bound is the one that k elements plus a few standard deviations exceeded.
  // It is not raised for fewer, because similar rows would raise it until it
  // fails.
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
  const int64_t patience_;
  Bounds<Key, kFloat> bounds_;
};

}  // namespace topk::cpu
