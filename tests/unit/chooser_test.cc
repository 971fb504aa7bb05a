#include "core/backends/cpu/chooser.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <thread>

#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/pieces.h"
#include "tests/unit/run_plan.h"

namespace topk::cpu {
namespace {

using testing::Ask;
using testing::ValidPlan;

// Pollers run plans that cost at most kSerialNanoseconds, and must not wait for
// other threads.
TEST(Chooser, RunsCheapPlansOnOneThread) {
  int cheap = 0;
  const auto check = [&](const Plan& plan) {
    const Schedule schedule = Choose(plan, 8);
    if (RunNanoseconds(plan) > kSerialNanoseconds) return;
    ++cheap;
    EXPECT_EQ(schedule.threads, 1) << plan.n << " " << plan.k;
    EXPECT_EQ(schedule.pieces, 1);
    EXPECT_EQ(schedule.sort_pieces, 1);
  };
  for (int64_t n = 1; n < 1 << 20; n += n / 16 + 1) {
    for (const DType type : {DType::kU8, DType::kF16, DType::kF32}) {
      for (const int64_t k : {int64_t{1}, n / 2 + 1, n}) {
        check(ValidPlan(Ask(type, {n}, 0, k)));
        check(ValidPlan(Ask(type, {n, 3}, 0, k)));
        check(ValidPlan(Ask(type, {7, n}, 1, k)));
        for (const int64_t stride : {0, 2}) {
          PlanRequest request = Ask(type, {n}, 0, k);
          request.strides = {stride};
          check(ValidPlan(request));
        }
      }
    }
  }
  EXPECT_GT(cheap, 500);
}

TEST(Chooser, FoldsThatSortOnSeveralThreadsAreNotCheap) {
  int sorts = 0;
  for (int64_t k = 1; k < 1 << 16; k += k / 16 + 1) {
    const Plan plan = ValidPlan(Ask(DType::kU8, {k + (1 << 16)}, 0, k));
    const FoldPlan fold = ChooseFold(plan, 1000);
    if (fold.schedule.threads == 1) continue;
    ++sorts;
    EXPECT_GT(FeedNanoseconds(plan, fold.positions, 1), kSerialNanoseconds)
        << k;
  }
  EXPECT_GT(sorts, 10);
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
