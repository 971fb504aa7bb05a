// Work divided for the threads of the arena.
//
// A thread that waits for the others takes only tasks of the same loop
// (isolate). Otherwise a request, even a cancelled one, would have to wait for
// another request's task, and the thread would hold the memory of both.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstdint>

#include "core/base/cancellation.h"
#include "core/base/happens_before.h"

namespace topk::cpu {

/// Calls fn() in the arena, on this thread or on a thread of the arena.
template <class Fn>
void RunIn(tbb::task_arena& arena, const Fn& fn) {
  arena.execute(HandedOver(fn, &fn));
  AnnotateHappensAfter(&fn);
}

/// Calls fn(0) ... fn(count - 1), side by side if there are several. Once
/// cancelled no more are begun. Returns whether all were done: if not, what
/// they were to make must not be read.
template <class Fn>
bool ForEachPiece(int64_t count, const Cancellation* cancellation,
                  const Fn& fn) {
  if (count == 1) {
    fn(int64_t{0});
    return !IsCancelled(cancellation);
  }
  tbb::task_group_context context;
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(int64_t{0}, count,
                      HandedOver(
                          [&](int64_t i) {
                            if (IsCancelled(cancellation)) {
                              context.cancel_group_execution();
                            } else {
                              fn(i);
                            }
                          },
                          &context),
                      tbb::simple_partitioner(), context);
  });
  AnnotateHappensAfter(&context);
  // Also false if the enclosing loop has failed in the meantime.
  return !IsCancelled(cancellation) && !context.is_group_execution_cancelled();
}

/// Calls fn(begin, end) on ranges of [0, count) of `grain` or more, side by
/// side if there are several. Once cancelled no more are begun.
template <class Fn>
void ForEachRange(int64_t count, int64_t grain,
                  const Cancellation* cancellation, const Fn& fn) {
  if (count <= grain) {
    fn(int64_t{0}, count);
    return;
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
        context);
  });
  AnnotateHappensAfter(&context);
}

}  // namespace topk::cpu
