#include "core/backends/cpu/pieces.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include <utility>

#include "core/base/happens_before.h"

namespace topk::cpu {

void ArenaPool::Run(absl::FunctionRef<void()> fn) {
  std::unique_ptr<tbb::task_arena> arena;
  {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      arena = std::make_unique<tbb::task_arena>(threads_);
    } else {
      arena = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  arena->execute(HandedOver(fn, &fn));
  AnnotateHappensAfter(&fn);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(arena));
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
