// How many threads a kernel of one thread for each item has. C++17: the device
// code includes it.
#pragma once

#include <cstdint>

namespace topk::cuda {

inline constexpr int kThreadsPerBlock = 256;

/// Enough to fill any device; a thread takes every so-manieth item.
inline constexpr int64_t kMaxBlocks = int64_t{1} << 16;

/// Returns how many blocks `items` have: at least 1, at most kMaxBlocks.
constexpr unsigned BlocksFor(int64_t items) {
  const int64_t blocks =
      items / kThreadsPerBlock + (items % kThreadsPerBlock != 0 ? 1 : 0);
  if (blocks < 1) return 1;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

}  // namespace topk::cuda
