// The algorithm that Choose() selects for various shapes.
#include "core/backends/cpu/chooser.h"

#include <gtest/gtest.h>

#include <set>

#include "core/backends/cpu/cost.h"
#include "tests/unit/run_plan.h"

namespace topk::cpu {
namespace {

using testing::Ask;
using testing::ValidPlan;

struct Row {
  DType dtype;
  std::vector<int64_t> shape;
  int64_t axis;
  int64_t k;
  /// The algorithms for one thread and for two.
  const char* one;
  const char* two;
};

const Row kRows[] = {
    {DType::kF32, {8192, 256}, 1, 8, "short-rows", "short-rows"},
    {DType::kF32, {10000000}, 0, 1000, "scan", "scan-split"},
    {DType::kF32, {1000000}, 0, 1000000, "sort", "sort-split"},
    {DType::kF32, {100000, 64}, 0, 10, "columns", "columns-split"},
    {DType::kF16, {1000, 64}, 0, 5, "short-rows-copied", "short-rows-copied"},
    {DType::kU4, {200, 64}, 0, 5, "short-rows-copied", "short-rows-copied"},
    {DType::kI16, {1000000, 4}, 0, 5, "scan-copied", "scan-copied-split"},
    {DType::kF64, {50, 3}, 0, 33, "sort-copied", "sort-copied"},
};

TEST(Chooser, ChoosesByShape) {
  std::set<Algorithm> chosen;
  for (const Row& row : kRows) {
    const Plan plan = ValidPlan(Ask(row.dtype, row.shape, row.axis, row.k));
    SCOPED_TRACE(::testing::PrintToString(row.shape) + " k " +
                 std::to_string(row.k));
    const Schedule one = Choose(plan, 1);
    EXPECT_EQ(NameOf(one), row.one);
    EXPECT_EQ(one.threads, 1);
    EXPECT_EQ(one.pieces, 1);
    EXPECT_EQ(NameOf(Choose(plan, 2)), row.two);
    EXPECT_TRUE(CanRun(one.algorithm, plan));
    chosen.insert(one.algorithm);
  }
  PlanRequest request = Ask(DType::kF32, {4, 100}, 1, 3);
  request.strides = {100, 1};  // contiguous
  EXPECT_EQ(NameOf(Choose(ValidPlan(request), 2)), "short-rows");
  request.strides = {1, 4};
  const Schedule strided = Choose(ValidPlan(request), 2);
  EXPECT_EQ(NameOf(strided), "short-rows-copied");
  chosen.insert(strided.algorithm);
  // If an algorithm is never chosen, delete it.
  EXPECT_EQ(chosen.size(), 4u);
}

// A stream unpacks sub-byte elements, which still have few distinct values.
TEST(Chooser, FoldsSubByteElementsWithoutTheShortRowsKernel) {
  const auto name = [](DType type) {
    const Plan plan = ValidPlan(Ask(type, {1000, 1024}, 1, 8));
    return NameOf(ChooseFold(plan, 1).schedule);
  };
  EXPECT_EQ(name(DType::kU4), "scan");
  EXPECT_EQ(name(DType::kU6), "short-rows");
}

TEST(Chooser, MakesNoTaskTooSmall) {
  // Work for about two tasks runs inline. More work is split for all threads.
  const Plan small = ValidPlan(Ask(DType::kF32, {64, 256}, 1, 8));
  EXPECT_EQ(Choose(small, 8).threads, 1);
  const Plan large = ValidPlan(Ask(DType::kF32, {8192, 256}, 1, 8));
  const Schedule schedule = Choose(large, 8);
  EXPECT_EQ(schedule.threads, 8);
  EXPECT_GT(schedule.grain * schedule.tile, 50);
  EXPECT_LT(schedule.grain * schedule.tile, 1000);
  EXPECT_EQ(schedule.pieces, 1);
  const Plan row = ValidPlan(Ask(DType::kF32, {100000000}, 0, 8));
  EXPECT_EQ(Choose(row, 8).pieces, 8);
  // Each thread has a task.
  const Plan medium = ValidPlan(Ask(DType::kF32, {1 << 20}, 0, 8));
  EXPECT_GT(Choose(medium, 16).threads, 1);
  EXPECT_EQ(Choose(medium, 16).threads, Choose(medium, 16).pieces);
}

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

// The estimate decides whether a GPU sorts.
TEST(Chooser, DoesNotExpectSortsOfARowToScaleWithTheThreads) {
  const auto estimate = [](const std::vector<int64_t>& shape, int64_t k,
                           int threads) {
    const Plan plan = ValidPlan(
        Ask(DType::kF32, shape, static_cast<int64_t>(shape.size()) - 1, k));
    return EstimateNanoseconds(plan, Choose(plan, threads));
  };
  const auto speedup = [&](const std::vector<int64_t>& shape, int64_t k) {
    return estimate(shape, k, 1) / estimate(shape, k, 16);
  };
  EXPECT_EQ(estimate({1 << 22}, 1 << 22, 1) / estimate({1 << 22}, 1 << 22, 2),
            2);
  EXPECT_EQ(speedup({1 << 22}, 1 << 22), 4);
  EXPECT_EQ(speedup({64, 1 << 16}, 1 << 16), 16);
  EXPECT_EQ(speedup({1 << 26}, 100), 16);
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

}  // namespace
}  // namespace topk::cpu
