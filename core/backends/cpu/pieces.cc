#include "core/backends/cpu/pieces.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include <algorithm>

namespace topk::cpu {

ArenaPool::Arena::Arena(ArenaPool& pool, int threads) : pool_(pool) {
  const std::lock_guard lock(pool.mutex_);
  const int free = static_cast<int>(pool.idle_.size()) - pool.used_;
  threads_ = std::max(std::min(threads, free), 1);
  auto& idle = pool.idle_[static_cast<size_t>(threads_) - 1];
  if (idle.empty()) {
    arena_ = std::make_unique<tbb::task_arena>(threads_);
  } else {
    arena_ = std::move(idle.back());
    idle.pop_back();
  }
  pool.used_ += threads_;
}

ArenaPool::Arena::~Arena() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.used_ -= threads_;
  pool_.idle_[static_cast<size_t>(threads_) - 1].push_back(std::move(arena_));
}

bool ForEachRange(int64_t count, int64_t grain,
                  const Cancellation* cancellation,
                  absl::FunctionRef<void(int64_t, int64_t)> fn) {
  if (count <= grain) {
    fn(0, count);
    return !IsCancelled(cancellation);
  }
  tbb::task_group_context context;
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain)),
        HandedOver(
            [&](const tbb::blocked_range<int64_t>& range) {
              if (IsCancelled(cancellation)) {
                context.cancel_group_execution();
              } else {
                fn(range.begin(), range.end());
              }
            },
            &context),
        tbb::auto_partitioner(), context);
  });
  AnnotateHappensAfter(&context);
  // The context is also cancelled if an enclosing parallel loop fails.
  return !IsCancelled(cancellation) && !context.is_group_execution_cancelled();
}

}  // namespace topk::cpu
