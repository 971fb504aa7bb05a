// Sorts elements by rank.
//
// Algorithm: a radix sort of pairs of keys and slots, from the lowest digit up.
// The number of digits depends on the range of the keys, not on their width.
// With several threads, each thread handles a piece of the items in every pass.
// Kernels::rank sorts small numbers of items instead (slice_writer.h).
//
// Why: the sort is stable. Slots ascend by index, so ties stay in ascending
// order of index. The cost does not depend on the data. The sort beats
// Highway's vectorized quicksort on the same items: 4.6 vs. 5.0 us for 1000
// items, 5.8 vs. 7.7 ms for a million (AMD Zen 4, AVX-512). For a million
// items, 11-bit digits that are all counted in one read take 0.74 of the time
// of 8-bit digits (Xeon with AVX-512). Buffering a cache line per bucket before
// writing it took 1.5 times as long.
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
  /// The bitwise complement of the key, so that the lowest value ranks first.
  Key key;
  /// The position of the candidate in its selection or row.
  uint32_t slot;
};

/// The number of bits per digit. For few items, short digits make counting
/// cheap. For many items, long digits reduce the number of passes.
inline constexpr int kFewBits = 8;
inline constexpr int kManyBits = 11;
/// Sorts of at least this many items use digits of kManyBits bits.
inline constexpr int64_t kManyItems = int64_t{1} << 17;

/// Returns an upper bound, in bytes, on the memory that SortByRank() uses in
/// addition to its arguments.
inline Size SortBytes(int64_t count, int64_t pieces) {
  constexpr int64_t kPasses = 8;  // at most
  const int64_t buckets = int64_t{1}
                          << (count < kManyItems ? kFewBits : kManyBits);
  return Size(std::max(pieces, kPasses)) * buckets * sizeof(uint32_t);
}

/// Sorts `items` by rank, in `pieces` >= 1 parallel pieces. `other` is scratch
/// of the same size. Returns the sorted items, which are in `items` or in
/// `other`. Returns an empty span if cancelled. REQUIRES: `items` is not empty.
template <class Key>
std::span<const Ranked<Key>> SortByRank(
    std::span<Ranked<Key>> items, std::span<Ranked<Key>> other, int64_t pieces,
    const Cancellation* cancellation = nullptr) {
  const auto count = static_cast<int64_t>(items.size());
  // Sort by key - lowest. Split the bits of this difference evenly into digits.
  Key lowest = items[0].key;
  Key highest = items[0].key;
  const auto widen = [&](int64_t begin, int64_t end) {
    Key low = lowest;
    Key high = highest;
    for (const Ranked<Key>* item = &items[0] + begin; item < &items[0] + end;
         ++item) {
      low = std::min(low, item->key);
      high = std::max(high, item->key);
    }
    lowest = low;
    highest = high;
  };
  if (!ForEachBlock(0, count, kBlockElements, cancellation, widen)) return {};
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<Key>(highest - lowest)));
  const int most = count < kManyItems ? kFewBits : kManyBits;
  const int passes = (bits + most - 1) / most;
  const int digit = passes > 0 ? (bits + passes - 1) / passes : 1;
  const size_t buckets = size_t{1} << digit;
  const auto mask = static_cast<Key>(buckets - 1);
  // With one piece, count the digits for all passes at once. With several
  // pieces, count before each pass, because a pass moves items between pieces.
  const auto sets = static_cast<size_t>(pieces > 1 ? pieces : passes);
  std::array<uint32_t, sizeof(Key) << kFewBits> few;  // avoids an allocation
  std::vector<uint32_t> many;
  if (pieces > 1 || most > kFewBits) many.resize(sets * buckets);
  const std::span<uint32_t> counters =
      many.empty() ? std::span<uint32_t>(few) : std::span<uint32_t>(many);
  Ranked<Key>* from = items.data();
  Ranked<Key>* to = other.data();
  const auto digit_at = [lowest, mask](int shift) {
    return [lowest, mask, shift](const Ranked<Key>& item) {
      return static_cast<size_t>(
          (static_cast<Key>(item.key - lowest) >> shift) & mask);
    };
  };
  const auto count_items = [&](int64_t begin, int64_t end, int shift,
                               uint32_t* counts) {
    const auto bucket = digit_at(shift);
    const Ranked<Key>* const source = from;
    for (int64_t i = begin; i < end; ++i) ++counts[bucket(source[i])];
  };
  if (pieces == 1) {
    std::fill_n(counters.data(), sets * buckets, 0u);
    const auto count_block = [&](int64_t begin, int64_t end) {
      for (int pass = 0; pass < passes; ++pass) {
        count_items(begin, end, pass * digit,
                    counters.data() + static_cast<size_t>(pass) * buckets);
      }
    };
    if (!ForEachBlock(0, count, kBlockElements, cancellation, count_block)) {
      return {};
    }
  }
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = pass * digit;
    const size_t first_set = pieces > 1 ? 0 : static_cast<size_t>(pass);
    const auto counts_of = [&](int64_t p) {
      return counters.data() + (first_set + static_cast<size_t>(p)) * buckets;
    };
    const auto count_piece = [&](int64_t p) {
      uint32_t* const counts = counts_of(p);
      std::fill(counts, counts + buckets, 0u);
      ForEachBlock(p * count / pieces, (p + 1) * count / pieces, kBlockElements,
                   cancellation, [&](int64_t begin, int64_t end) {
                     count_items(begin, end, shift, counts);
                   });
    };
    if (pieces > 1 && !ForEachPiece(pieces, cancellation, count_piece)) {
      return {};
    }
    uint32_t sum = 0;
    for (size_t b = 0; b < buckets; ++b) {
      for (int64_t p = 0; p < pieces; ++p) {
        sum += std::exchange(counts_of(p)[b], sum);
      }
    }
    const auto move_piece = [&](int64_t p) {
      uint32_t* const next = counts_of(p);
      const auto move_block = [&, next](int64_t begin, int64_t end) {
        const auto bucket = digit_at(shift);
        const Ranked<Key>* const source = from;
        Ranked<Key>* const target = to;
        for (int64_t i = begin; i < end; ++i) {
          const Ranked<Key> item = source[i];
          target[next[bucket(item)]++] = item;
        }
      };
      ForEachBlock(p * count / pieces, (p + 1) * count / pieces, kBlockElements,
                   cancellation, move_block);
    };
    if (!ForEachPiece(pieces, cancellation, move_piece)) return {};
    std::swap(from, to);
  }
  return {from, items.size()};
}

}  // namespace topk::cpu
