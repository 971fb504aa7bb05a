// How the CUDA backend divides a tensor, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/backends/cuda/cost.h"
#include "core/backends/cuda/parts.h"
#include "core/base/dtype.h"
#include "tests/unit/run_plan.h"

namespace topk::cuda {
namespace {

using topk::testing::Ask;
using topk::testing::ValidPlan;

TEST(CudaParts, CoverEachRowOnce) {
  std::mt19937_64 random(11);
  const auto pick = [&random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const int64_t outer = pick(1, 6);
    const int64_t n = pick(1, 9);
    const int64_t inner = pick(1, 4);
    const Plan plan =
        ValidPlan(Ask(DType::kF32, {outer, n, inner}, 1, pick(1, n)));
    const int64_t rows = RowsPerPiece(plan, pick(1, 40));
    ASSERT_GE(rows, 1);
    ASSERT_LE(rows, outer * n);
    if (rows < n) {
      ASSERT_GE(rows, plan.k);
    }
    int64_t next = 0;
    while (next < outer * n) {
      const int64_t end = std::min(next + rows, outer * n);
      const std::vector<Part> parts = CutRows(plan, next, end);
      ASSERT_LE(parts.size(), 3U);
      for (const Part& part : parts) {
        ASSERT_EQ(part.first_block * n + part.first_row, next);
        ASSERT_LE(part.first_row + part.rows, n);
        ASSERT_GE(part.rows, 1);
        ASSERT_TRUE(part.blocks == 1 || part.rows == n);
        next += part.blocks * part.rows;
      }
      ASSERT_EQ(next, end);
    }
  }
}

TEST(CudaParts, BoundBytesWithoutOverflow) {
  Plan plan = ValidPlan(Ask(DType::kF64, {1, 1 << 20}, 1, 100));
  EXPECT_LT(DeviceBytes(plan, RowsPerPiece(plan, kPieceElements)),
            int64_t{200} << 20);
  plan.inner = int64_t{1} << 40;
  plan.n = int64_t{1} << 20;
  plan.k = plan.n;
  EXPECT_GT(DeviceBytes(plan, RowsPerPiece(plan, kPieceElements)),
            int64_t{1} << 62);
}

TEST(CudaCost, GrowsWithTheCopiedAndSortedElements) {
  const auto cost = [](std::vector<int64_t> shape, int64_t k) {
    const Plan plan = ValidPlan(Ask(DType::kF32, std::move(shape), -1, k));
    return EstimateNanoseconds(plan, RowsPerPiece(plan, kPieceElements));
  };
  EXPECT_LT(cost({1, 1000}, 5), cost({1, 10000000}, 5));
  EXPECT_LT(cost({1, 10000000}, 5), cost({1, 10000000}, 10000000));
  // At least the copy into pinned memory, 10 GB/s at most.
  EXPECT_GT(cost({1, 10000000}, 5), 4000000);
}

}  // namespace
}  // namespace topk::cuda
