// Runs work in parallel on oneTBB's threads.
//
// A thread that waits for a parallel loop runs only tasks of this loop.
// Otherwise, even a cancelled request might have to wait for a task of another
// request, and the memory of both requests would stay in use.
#pragma once

#include <absl/functional/function_ref.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backends/cpu/blocks.h"
#include "core/base/cancellation.h"

namespace topk::cpu {

/// Arenas for parallel loops. Each computation uses a separate arena, because a
/// thread that enters a full arena must wait for the computations in that
/// arena. oneTBB wakes as many threads as an arena has, even for two tasks, so
/// an arena has only as many as its computation can use, and all arenas in use
/// together have at most as many as the pool, or one each. Thread-safe.
class ArenaPool {
 public:
  /// Lets all computations together use `threads` threads. However, each may
  /// use the thread that calls Run().
  explicit ArenaPool(int threads) : idle_(static_cast<size_t>(threads)) {}

  /// Calls fn() on this thread. Parallel loops in fn() use a separate arena of
  /// at most `threads` >= 1 threads.
  void Run(int threads, absl::FunctionRef<void()> fn);

 private:
  std::mutex mutex_;
  int used_ = 0;  // threads of the arenas in use
  // The arenas that are not in use. Those with n threads are in idle_[n - 1].
  std::vector<std::vector<std::unique_ptr<tbb::task_arena>>> idle_;
};

/// Divides [0, count) into ranges and calls fn(begin, end) for each, in
/// parallel if count > grain. A range of at most `grain` elements is not
/// divided further. Starts no more calls after a cancellation. Returns whether
/// all calls were made. If not, the results must not be used.
bool ForEachRange(int64_t count, int64_t grain,
                  const Cancellation* cancellation,
                  absl::FunctionRef<void(int64_t, int64_t)> fn);

/// Calls fn(0) ... fn(count - 1), in parallel if count > 1. Otherwise like
/// ForEachRange().
template <class Fn>
bool ForEachPiece(int64_t count, const Cancellation* cancellation,
                  const Fn& fn) {
  return ForEachRange(count, 1, cancellation, [&](int64_t begin, int64_t end) {
    for (; begin < end && !IsCancelled(cancellation); ++begin) fn(begin);
  });
}

/// Cuts [0, count) into `pieces` pieces that run in parallel, and each piece p
/// into blocks. Calls fn(p, begin, end) for each block. Returns false if
/// cancelled.
template <class Fn>
bool ForEachBlockOf(int64_t count, int64_t pieces,
                    const Cancellation* cancellation, const Fn& fn) {
  return ForEachPiece(pieces, cancellation, [&](int64_t p) {
    ForEachBlock(p * count / pieces, (p + 1) * count / pieces, kBlockElements,
                 cancellation,
                 [&](int64_t begin, int64_t end) { fn(p, begin, end); });
  });
}

}  // namespace topk::cpu
