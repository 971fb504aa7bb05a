// Feeds rows to selections: the way of every row that is not short, and of
// every fold.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "core/backends/cpu/bound.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/selection.h"

namespace topk::cpu {

/// Returns the element at a position of unaligned memory.
template <class Key>
Key Load(const std::byte* elements, int64_t position) {
  Key bits;
  std::memcpy(&bits, elements + position * static_cast<int64_t>(sizeof(Key)),
              sizeof(Key));
  return bits;
}

/// Offers neighbouring elements to one selection, with the indices first,
/// first + 1, ... Its bound, if it has one, is applied to vectors at a time.
template <class Key, bool kFloat>
void FeedRow(const Kernels<Key, kFloat>& kernels,
             const KeyMap<Key, kFloat>& map, const std::byte* elements,
             int64_t count, int64_t first, Selection<Key>& selection) {
  constexpr Key kOnes = static_cast<Key>(~Key{0});
  constexpr int64_t kPositions = 1024;
  constexpr int64_t kScanMost = int64_t{1} << 31;  // positions are 32 bits wide
  std::array<uint32_t, kPositions> positions;
  int64_t i = 0;
  const auto offer = [&](int64_t at) {
    const Key bits = Load<Key>(elements, at);
    selection.Offer(map(bits), bits, static_cast<uint64_t>(first + at));
  };
  while (i < count) {
    if (!selection.bounded()) {
      const int64_t end = std::min(count, i + selection.room());
      for (; i < end; ++i) offer(i);
      continue;
    }
    if (selection.bound() == kOnes) return;  // nothing ranks before k such
    const Scanned scanned =
        kernels.scan(ProbeAbove(map, selection.bound()),
                     elements + i * static_cast<int64_t>(sizeof(Key)),
                     std::min(count - i, kScanMost), 0, positions.data(),
                     std::min(kPositions, selection.room() + kScanSlack));
    for (int64_t p = 0; p < scanned.found; ++p) {
      offer(i + positions[static_cast<size_t>(p)]);
    }
    i += scanned.elements;
  }
}

/// Offers a row, or a long run of one, whose first element has the index
/// `first`, cut into as many pieces as there are selections, side by side: with
/// a bound from a look at all of it beforehand. `hint` is a bound that did for
/// the row before, if there is one, and is kept for the next.
template <class Key, bool kFloat>
void FeedWithBounds(const Kernels<Key, kFloat>& kernels,
                    const KeyMap<Key, kFloat>& map, const std::byte* elements,
                    int64_t count, int64_t first, int64_t k,
                    Bounds<Key, kFloat>& bounds, std::optional<Key>& hint,
                    std::span<Selection<Key>> selections) {
  const auto pieces = static_cast<int64_t>(selections.size());
  const auto feed = [&] {
    ForEachPiece(pieces, [&](int64_t p) {
      const int64_t begin = p * count / pieces;
      FeedRow(kernels, map,
              elements + begin * static_cast<int64_t>(sizeof(Key)),
              (p + 1) * count / pieces - begin, first + begin,
              selections[static_cast<size_t>(p)]);
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
    for (Selection<Key>& selection : selections) {
      reselections += selection.reselections();
      came += selection.CameInSince();
    }
    if (came < k) {
      for (Selection<Key>& selection : selections) selection.GiveBoundUp();
      return false;
    }
    // Of rows alike the next will do with it; not if it let too many in.
    constexpr int64_t kUseful = 8;
    hint = reselections <= kUseful ? std::optional(bound) : std::nullopt;
    return true;
  };
  if (k <= count / 2) {
    if (hint && holds(*hint)) return;
    bounds.Sample(elements, count, k);
    while (const std::optional<Key> reached = bounds.Next()) {
      if (holds(static_cast<Key>(*reached - 1))) return;
    }
  }
  hint.reset();
  feed();
}

}  // namespace topk::cpu
