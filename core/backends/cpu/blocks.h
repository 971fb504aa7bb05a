// Splits long work into blocks, so that it can be cancelled in between.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/cancellation.h"

namespace topk::cpu {

/// Elements per block of simple work: 4 us if they are in L1, so the cost of
/// checking for cancellation is negligible, and 1 ms if each element is read
/// from memory with small pages.
inline constexpr int64_t kBlockElements = int64_t{1} << 13;
/// Bytes per block of a kernel that processes everything it reads: 50 us.
inline constexpr int64_t kBlockBytes = int64_t{1} << 19;
/// Bytes per block of pure reading from memory: 0.3 ms. The hardware prefetcher
/// restarts at each block.
inline constexpr int64_t kScanBytes = int64_t{1} << 22;

/// Returns the number of rows of `columns` elements per block that is
/// transposed.
inline int64_t RowsPerBlock(int64_t columns) {
  constexpr int64_t kMinRows = 64;
  return std::max(kBlockElements / columns, kMinRows);
}

/// Calls fn(b, e) on consecutive ranges of at most `block`, until all of
/// [begin, end) is done or the computation is cancelled. Does not check for
/// cancellation before the first range. Returns whether all ranges were done.
template <class Fn>
bool ForEachBlock(int64_t begin, int64_t end, int64_t block,
                  const Cancellation* cancellation, const Fn& fn) {
  while (begin < end) {
    const int64_t next = std::min(end, begin + block);
    fn(begin, next);
    begin = next;
    if (begin < end && IsCancelled(cancellation)) return false;
  }
  return true;
}

}  // namespace topk::cpu
