// Cheap plans run on one thread, and RowFeed does little work even for
// adversarial orders. unit/long_slices_test.cc checks the results.
#include "core/backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/row_feed.h"
#include "core/base/dtype.h"
#include "tests/unit/run_plan.h"

namespace topk::cpu {
namespace {

using testing::Ask;
using testing::ValidPlan;
using Encoder = SortKeyEncoder<uint32_t, false>;
using Feeder = RowFeed<uint32_t, false>;

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

const std::byte* Bytes(const std::vector<uint32_t>& row) {
  return reinterpret_cast<const std::byte*>(row.data());
}

// Returns the numbers from 1 to `count`.
std::vector<uint32_t> Ascending(int64_t count) {
  std::vector<uint32_t> row(static_cast<size_t>(count));
  std::iota(row.begin(), row.end(), 1u);
  return row;
}

// A selection and its memory.
class OwnedSelection {
 public:
  OwnedSelection(const Kernels<uint32_t, false>& kernels, int64_t k)
      : keys_(static_cast<size_t>(k + 128)),
        elements_(keys_.size()),
        selection_(kernels.kth, k, keys_, elements_) {}

  Selection<uint32_t>& operator*() { return selection_; }

 private:
  std::vector<uint32_t> keys_;
  std::vector<Selection<uint32_t>::Element> elements_;
  Selection<uint32_t> selection_;
};

// Kernels that count the elements they scan. Only one object may exist at a
// time.
struct CountingKernels {
  explicit CountingKernels(const Kernels<uint32_t, false>& from)
      : kernels(from) {
    real = from;
    scanned = 0;
    kernels.scan = [](const Encoder& encoder, uint32_t bound,
                      const std::byte* elements, int64_t count,
                      uint32_t* positions, int64_t room) {
      const Scanned result =
          real.scan(encoder, bound, elements, count, positions, room);
      scanned += result.elements;
      return result;
    };
  }

  static inline Kernels<uint32_t, false> real;
  static inline int64_t scanned;
  Kernels<uint32_t, false> kernels;
};

class RowFeedTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  static constexpr int64_t kCount = 20000;
  static constexpr int64_t kK = 60;
  const Kernels<uint32_t, false>& kernels_ =
      GetParam().kernels<uint32_t, false>();
  const Encoder encoder_{InfoOf(DType::kU32), true};
};

// The elements of every second row exceed those of the next row, for which the
// bound of the previous row therefore fails.
TEST_P(RowFeedTest, ReadsHalfOfTheRowsTwiceIfEachPreviousBoundFails) {
  CountingKernels counting(kernels_);
  Feeder feed(counting.kernels, encoder_, kK);
  std::mt19937 random(1);
  constexpr int64_t kRounds = 20;
  for (int64_t i = 0; i < kRounds; ++i) {
    std::vector<uint32_t> row = Ascending(kCount);
    std::ranges::shuffle(row, random);
    if (i % 2 == 0) {
      for (uint32_t& element : row) element += kCount;
    }
    OwnedSelection owned(kernels_, kK);
    feed.FeedRow({Bytes(row), kCount, 0}, std::span(&*owned, 1));
  }
  EXPECT_GT(counting.scanned, kRounds * kCount);
  EXPECT_LE(counting.scanned, kRounds * kCount * 3 / 2);
}

// In an ascending row, every element enters the selection unless RowFeed
// samples the rest of the row. Counts reselections rather than measuring time.
TEST_P(RowFeedTest, ReselectsRarelyForAnyOrder) {
  constexpr int64_t kLong = 1000000;
  constexpr int64_t kMany = 100;
  std::vector<uint32_t> row = Ascending(kLong);
  const auto expect_few = [&](int64_t part, int64_t reselections) {
    OwnedSelection owned(kernels_, kMany);
    Selection<uint32_t>& selection = *owned;
    Feeder feed(kernels_, encoder_, kMany);
    const Segment whole = {Bytes(row), kLong, 0};
    feed.Feed(whole.Part<uint32_t>(0, 1000), selection);
    for (int64_t begin = 1000; begin < kLong; begin += part) {
      feed.Feed(whole.Part<uint32_t>(begin, std::min(begin + part, kLong)),
                selection);
    }
    EXPECT_LT(selection.reselections(), reselections);
  };
  // Without samples, all elements would enter: 7812 reselections.
  expect_few(kLong, 100);
  expect_few(2000, 1500);
  std::ranges::reverse(row);
  expect_few(kLong, 10);
  std::ranges::shuffle(row, std::mt19937(1));
  expect_few(kLong, 30);
}

INSTANTIATE_TEST_SUITE_P(All, RowFeedTest,
                         ::testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace topk::cpu
