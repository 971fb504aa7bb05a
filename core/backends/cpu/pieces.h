// Work cut for the threads of the arena.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <cstdint>

namespace topk::cpu {

/// Calls fn(0) ... fn(count - 1), side by side if there are several.
template <class Fn>
void ForEachPiece(int64_t count, const Fn& fn) {
  if (count == 1) {
    fn(int64_t{0});
  } else {
    tbb::parallel_for(int64_t{0}, count, fn, tbb::simple_partitioner());
  }
}

/// Calls fn(begin, end) on ranges of [0, count) of `grain` or more, side by
/// side if there are several.
template <class Fn>
void ForEachRange(int64_t count, int64_t grain, const Fn& fn) {
  if (count <= grain) {
    fn(int64_t{0}, count);
  } else {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain)),
        [&](const tbb::blocked_range<int64_t>& range) {
          fn(range.begin(), range.end());
        });
  }
}

}  // namespace topk::cpu
