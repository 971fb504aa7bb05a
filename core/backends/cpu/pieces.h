// Work divided among the threads of an arena.
//
// A thread that waits for the others runs only tasks of the same loop
// (isolate). Otherwise a request, even a cancelled one, would have to wait for
// a task of another request, and would hold the memory of both.
#pragma once

#include <tbb/task_arena.h>

#include <cstdint>

#include "core/base/cancellation.h"
#include "core/base/function_ref.h"
#include "core/base/happens_before.h"

namespace topk::cpu {

/// Calls fn() in the arena, on this thread or on a thread of the arena.
template <class Fn>
void RunIn(tbb::task_arena& arena, const Fn& fn) {
  arena.execute(HandedOver(fn, &fn));
  AnnotateHappensAfter(&fn);
}

/// Calls fn(0) ... fn(count - 1), in parallel if there are several. Starts no
/// more of them after a cancellation. Returns whether all were done: if not,
/// their results must not be read.
bool ForEachPiece(int64_t count, const Cancellation* cancellation,
                  FunctionRef<void(int64_t)> fn);

/// Calls fn(begin, end) on ranges of [0, count) of `grain` or more, in parallel
/// if there are several. Starts no more of them after a cancellation.
void ForEachRange(int64_t count, int64_t grain,
                  const Cancellation* cancellation,
                  FunctionRef<void(int64_t, int64_t)> fn);

}  // namespace topk::cpu
