// Splits long work into blocks, and checks for cancellation between blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/cancellation.h"

namespace topk::cpu {

/// The block size, in elements, for simple work on each element. A block takes
/// 4 us if the data is in L1, so checking for cancellation is cheap. A block
/// takes up to 1 ms if every element is read from memory.
inline constexpr int64_t kBlockElements = int64_t{1} << 13;
/// The block size of compute-bound kernels, in bytes: about 50 us of work.
inline constexpr int64_t kBlockBytes = int64_t{1} << 19;
/// The block size, in bytes, of a kernel that mostly reads memory. A block
/// takes 0.3 ms. Small blocks would be slower, because the hardware prefetcher
/// restarts at each block.
inline constexpr int64_t kScanBytes = int64_t{1} << 22;

/// Returns the number of rows to transpose per block. A row has `columns`
/// elements.
inline int64_t RowsPerBlock(int64_t columns) {
  constexpr int64_t kMinRows = 64;
  return std::max(kBlockElements / columns, kMinRows);
}

/// Divides [begin, end) into blocks of at most `block` items. Calls fn(b, e)
/// for each block in order. Checks for cancellation between blocks, and stops
/// if cancelled. Returns whether all calls were made. Always inlined, because
/// `fn` is often a hot loop.
template <class Fn>
[[gnu::always_inline]] inline bool ForEachBlock(
    int64_t begin, int64_t end, int64_t block, const Cancellation* cancellation,
    const Fn& fn) {
  while (begin < end) {
    const int64_t next = std::min(end, begin + block);
    fn(begin, next);
    begin = next;
    if (begin < end && IsCancelled(cancellation)) return false;
  }
  return true;
}

}  // namespace topk::cpu
