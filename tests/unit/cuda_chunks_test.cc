// How the CUDA backend splits a tensor, and its cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/items.h"
#include "core/base/dtype.h"
#include "tests/unit/run_plan.h"

namespace topk::cuda {
namespace {

using topk::testing::Ask;
using topk::testing::ValidPlan;

TEST(CudaItems, DividesNumbersOfAnySize) {
  constexpr int64_t kWide = int64_t{1} << 40;
  for (const int64_t b : {int64_t{1}, int64_t{7}, kWide + 1}) {
    for (const int64_t a : {int64_t{0}, int64_t{6}, kWide, INT64_MAX}) {
      EXPECT_EQ(Divide(a, b).quotient, a / b);
      EXPECT_EQ(Divide(a, b).remainder, a % b);
    }
  }
}

TEST(CudaChunks, CoverEachPositionOnce) {
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
    const int64_t positions = PositionsPerChunk(plan, pick(1, 40));
    ASSERT_GE(positions, 1);
    ASSERT_LE(positions, outer * n);
    if (positions < n) {
      ASSERT_GE(positions, plan.k);
    }
    int64_t next = 0;
    while (next < outer * n) {
      const int64_t end = std::min(next + positions, outer * n);
      const std::vector<Tile> tiles = CutTiles(plan, next, end);
      ASSERT_LE(tiles.size(), 3U);
      for (const Tile& tile : tiles) {
        ASSERT_EQ(tile.first_batch * n + tile.first_position, next);
        ASSERT_LE(tile.first_position + tile.positions, n);
        ASSERT_GE(tile.positions, 1);
        ASSERT_TRUE(tile.batches == 1 || tile.positions == n);
        next += tile.batches * tile.positions;
      }
      ASSERT_EQ(next, end);
    }
  }
}

TEST(CudaChunks, BoundBytesWithoutOverflow) {
  Plan plan = ValidPlan(Ask(DType::kF64, {1, 1 << 20}, 1, 100));
  EXPECT_LT(DeviceBytes(plan, PositionsPerChunk(plan, kChunkElements)),
            int64_t{200} << 20);
  plan.inner = int64_t{1} << 40;
  plan.n = int64_t{1} << 20;
  plan.k = plan.n;
  EXPECT_GT(DeviceBytes(plan, PositionsPerChunk(plan, kChunkElements)),
            int64_t{1} << 62);
}

TEST(CudaCost, GrowsWithTheCopiedAndSortedElements) {
  const auto cost = [](std::vector<int64_t> shape, int64_t k) {
    const Plan plan = ValidPlan(Ask(DType::kF32, std::move(shape), -1, k));
    return EstimateNanoseconds(plan, PositionsPerChunk(plan, kChunkElements));
  };
  EXPECT_LT(cost({1, 1000}, 5), cost({1, 10000000}, 5));
  EXPECT_LT(cost({1, 10000000}, 5), cost({1, 10000000}, 10000000));
  // At least the copy to pinned memory, at 10 GB/s or less.
  EXPECT_GT(cost({1, 10000000}, 5), 4000000);
}

}  // namespace
}  // namespace topk::cuda
