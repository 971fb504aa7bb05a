// Finds the k-th greatest of many keys, in blocks.
//
// Algorithm: a radix select from the highest digit down. The histogram of a
// digit determines that digit of the k-th key, and only keys with that digit
// are counted in the next pass.
//
// Why: the kernel (Kernels::kth) passes over all keys about twenty times and
// cannot be cancelled. The radix select needs one pass per digit, for any data,
// and works in blocks. For up to kKthMost keys, the kernel is faster and takes
// less than a millisecond.
//
// Tests: unit/kernels_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/backends/cpu/blocks.h"

namespace topk::cpu {

/// The maximum number of keys for Kernels::kth. KthOf() uses the radix select
/// for more.
inline constexpr int64_t kKthMost = int64_t{1} << 16;

/// Returns a key that exactly k of the keys reach, or else the k-th greatest
/// key, like `kernel`, which is Kernels::kth. The key may differ from the
/// kernel's. It is 0 only if the k-th greatest key is 0. Returns an arbitrary
/// key if cancelled.
template <class Key>
Key KthOf(Key (*kernel)(const Key*, int64_t, int64_t), const Key* keys,
          int64_t count, int64_t k, const Cancellation* cancellation) {
  if (count <= kKthMost) return kernel(keys, count, k);
  constexpr int kBits = 8 * sizeof(Key);
  constexpr int kMaxDigit = 11;
  Key prefix = 0;
  Key decided = 0;  // mask of the known bits of the prefix
  int64_t wanted = k;
  for (int shift = kBits; shift > 0;) {
    const int digit = std::min(shift, kMaxDigit);
    shift -= digit;
    const size_t mask = (size_t{1} << digit) - 1;
    // Alternate between two histograms: neighbors are often equal, and
    // increments of the same counter would wait for each other.
    std::array<std::array<uint32_t, size_t{1} << kMaxDigit>, 2> counts = {};
    const auto count_block = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Key key = keys[i];
        if ((key & decided) != prefix) continue;
        ++counts[static_cast<size_t>(i & 1)]
                [static_cast<size_t>(key >> shift) & mask];
      }
    };
    if (!ForEachBlock(0, count, kBlockElements, cancellation, count_block)) {
      return prefix;
    }
    size_t value = mask;
    const auto counted = [&] {
      return int64_t{counts[0][value]} + int64_t{counts[1][value]};
    };
    for (; value > 0 && counted() < wanted; --value) wanted -= counted();
    prefix = static_cast<Key>(prefix | static_cast<Key>(Key(value) << shift));
    decided = static_cast<Key>(decided | static_cast<Key>(Key(mask) << shift));
    // Exactly `wanted` keys have this prefix, so k keys reach the prefix
    // itself.
    if (counted() == wanted && prefix != 0) break;
  }
  return prefix;
}

}  // namespace topk::cpu
