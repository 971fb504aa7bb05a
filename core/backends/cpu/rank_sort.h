// Sorts elements by rank.
//
// Algorithm: a radix sort of pairs of keys and slots, from the lowest digit up.
// The number of digits depends on the range of the keys, not on their width.
// With several threads, each thread handles a piece of the items in every pass.
// Kernels::rank sorts small numbers of items instead (slice_writer.h).
//
// Why: the sort is stable. Slots ascend by index, so ties stay in ascending
// order of index. The cost does not depend on the data. The sort takes 0.75 to
// 0.9 of the time of Highway's vectorized quicksort (AMD Zen 4, AVX-512).
//
// Costs: a pass takes about 2 ns per item; 8 to 64 bits take 1 to 8 passes.
// Tests: unit/long_slices_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/pieces.h"
#include "core/base/checked.h"

namespace topk::cpu {

/// A candidate during the sort.
template <class Key>
struct Ranked {
  /// The complement of a candidate's key. The lowest complement ranks first.
  Key key;
  /// The candidate's position in the selection or row being sorted.
  uint32_t slot;
};

/// The number of bits in a digit, and the number of possible digits.
inline constexpr int kDigitBits = 8;
inline constexpr size_t kBuckets = size_t{1} << kDigitBits;

/// Sorts `items` by rank, in `pieces` >= 1 parallel pieces. `other` is scratch
/// of the same size. Returns the sorted items, which are in `items` or in
/// `other`. Returns an empty span if cancelled. REQUIRES: `items` is not empty.
template <class Key>
std::span<const Ranked<Key>> SortByRank(
    std::span<Ranked<Key>> items, std::span<Ranked<Key>> other, int64_t pieces,
    const Cancellation* cancellation = nullptr) {
  const auto count = static_cast<int64_t>(items.size());
  // Sort by `key - lowest`: a smaller range of keys needs fewer passes.
  Key lowest = items[0].key;
  Key highest = items[0].key;
  const auto widen = [&](int64_t begin, int64_t end) {
    Key low = lowest;
    Key high = highest;
    for (const auto& item : std::span(&items[0] + begin, &items[0] + end)) {
      low = std::min(low, item.key);
      high = std::max(high, item.key);
    }
    lowest = low;
    highest = high;
  };
  if (!ForEachBlock(0, count, kBlockElements, cancellation, widen)) return {};
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<Key>(highest - lowest)));
  std::array<uint32_t, kBuckets> one_piece;  // avoids an allocation
  std::vector<uint32_t> more_pieces;
  if (pieces > 1) more_pieces.resize(static_cast<size_t>(pieces) * kBuckets);
  const std::span<uint32_t> counters = pieces > 1
                                           ? std::span<uint32_t>(more_pieces)
                                           : std::span<uint32_t>(one_piece);
  Ranked<Key>* from = items.data();
  Ranked<Key>* to = other.data();
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const auto bucket = [lowest, shift](const Ranked<Key>& item) {
      const auto offset = static_cast<Key>(item.key - lowest);
      return (static_cast<size_t>(offset) >> shift) & (kBuckets - 1);
    };
    const auto counts_of = [counts = counters.data()](int64_t p) {
      return counts + static_cast<size_t>(p) * kBuckets;
    };
    std::ranges::fill(counters, 0u);
    const auto count_block = [bucket, counts_of, source = from](
                                 int64_t p, int64_t begin, int64_t end) {
      uint32_t* const counts = counts_of(p);
      for (int64_t i = begin; i < end; ++i) ++counts[bucket(source[i])];
    };
    if (!ForEachBlockOf(count, pieces, cancellation, count_block)) return {};
    uint32_t sum = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      for (int64_t p = 0; p < pieces; ++p) {
        sum += std::exchange(counts_of(p)[b], sum);
      }
    }
    const auto move_block = [bucket, counts_of, source = from, target = to](
                                int64_t p, int64_t begin, int64_t end) {
      uint32_t* const next = counts_of(p);
      for (int64_t i = begin; i < end; ++i) {
        const Ranked<Key> item = source[i];
        target[next[bucket(item)]++] = item;
      }
    };
    if (!ForEachBlockOf(count, pieces, cancellation, move_block)) return {};
    std::swap(from, to);
  }
  return {from, items.size()};
}

}  // namespace topk::cpu
