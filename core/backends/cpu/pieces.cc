#include "core/backends/cpu/pieces.h"

#include <absl/cleanup/cleanup.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <utility>

#include "core/base/happens_before.h"

namespace topk::cpu {

void ArenaPool::Run(int threads, absl::FunctionRef<void()> fn) {
  std::unique_ptr<tbb::task_arena> arena;
  {
    const std::lock_guard lock(mutex_);
    const int unused = static_cast<int>(idle_.size()) - used_;
    threads = std::max(std::min(threads, unused), 1);
    auto& idle = idle_[static_cast<size_t>(threads) - 1];
    // Reserve now, so that giving the arenas back cannot fail.
    idle.reserve(idle.size() + static_cast<size_t>(used_ / threads) + 1);
    if (idle.empty()) {
      arena = std::make_unique<tbb::task_arena>(threads);
    } else {
      arena = std::move(idle.back());
      idle.pop_back();
    }
    used_ += threads;
  }
  const absl::Cleanup give_back = [&] {
    const std::lock_guard lock(mutex_);
    used_ -= threads;
    idle_[static_cast<size_t>(threads) - 1].push_back(std::move(arena));
  };
  arena->execute(HandedOver(fn, &fn));
  AnnotateHappensAfter(&fn);
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
