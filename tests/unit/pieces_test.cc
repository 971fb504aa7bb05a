// Loops on the arena's threads see the caller's earlier writes, and the caller
// then sees the writes of the loops. Checked by ThreadSanitizer.
#include "core/backends/cpu/pieces.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

namespace topk::cpu {
namespace {

TEST(Pieces, SynchronizeWithTheirCaller) {
  ArenaPool arenas(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> in(1000);
    std::vector<int64_t> out(in.size());
    std::iota(in.begin(), in.end(), round);
    arenas.Run(2, [&] {
      ForEachRange(1000, 10, nullptr, [&](int64_t begin, int64_t end) {
        std::copy(in.begin() + begin, in.begin() + end, out.begin() + begin);
      });
      ForEachPiece(1000, nullptr, [&](int64_t i) { out[i] -= i; });
    });
    EXPECT_EQ(out, std::vector<int64_t>(1000, round));
  }
}

// All pieces have begun when one of them sees the cancellation.
TEST(Pieces, ReportACancellationDuringTheLastPiece) {
  ArenaPool arenas(2);
  Cancellation cancellation;
  std::atomic<int> begun = 0;
  arenas.Run(2, [&] {
    EXPECT_FALSE(ForEachPiece(2, &cancellation, [&](int64_t) {
      if (++begun == 2) cancellation.Cancel();
    }));
  });
}

// The pool's two threads are both busy. A third caller enters anyway.
TEST(ArenaPool, NeverKeepsACallerWaiting) {
  ArenaPool arenas(2);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<int> inside = 0;
  const auto hold = [&] {
    arenas.Run(2, [&] {
      ++inside;
      ended.wait();
    });
  };
  std::thread first(hold);
  std::thread second(hold);
  while (inside < 2) std::this_thread::yield();
  auto third = std::async(std::launch::async, [&] { arenas.Run(2, [] {}); });
  EXPECT_EQ(third.wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  end.set_value();
  first.join();
  second.join();
}

TEST(ArenaPool, DividesItsThreadsAmongComputations) {
  ArenaPool arenas(4);
  const auto threads = [&arenas](int wanted) {
    int got = 0;
    arenas.Run(wanted,
               [&got] { got = tbb::this_task_arena::max_concurrency(); });
    return got;
  };
  EXPECT_EQ(threads(3), 3);
  EXPECT_EQ(threads(5), 4);
  arenas.Run(2, [&] { EXPECT_EQ(threads(3), 2); });
  arenas.Run(4, [&] { EXPECT_EQ(threads(3), 1); });
  EXPECT_THROW(arenas.Run(4, [] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(threads(3), 3);
}

}  // namespace
}  // namespace topk::cpu
