<<<<<<< HEAD:tests/unit/cuda_chunks_test.cc
// The pure functions of the CUDA backend: chunks, methods, keys and costs.
=======
// How the CUDA backend divides a tensor, and what it costs.
>>>>>>> wt_unit:tests/unit/cuda_parts_test.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

<<<<<<< HEAD:tests/unit/cuda_chunks_test.cc
#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/items.h"
#include "core/backends/cuda/method.h"
=======
#include "core/backends/cuda/cost.h"
#include "core/backends/cuda/parts.h"
>>>>>>> wt_unit:tests/unit/cuda_parts_test.cc
#include "core/base/dtype.h"
#include "tests/unit/run_plan.h"

namespace topk::cuda {
namespace {

using topk::testing::Ask;
using topk::testing::ValidPlan;

<<<<<<< HEAD:tests/unit/cuda_chunks_test.cc
TEST(CudaMethod, IsAFunctionOfTheShape) {
  EXPECT_EQ(ChooseMethod(1, 10, 10), Method::kKeepAll);
  EXPECT_EQ(ChooseMethod(8192, 256, 8), Method::kBatchedTopK);
  EXPECT_EQ(ChooseMethod(1, kMaxBatchedLength, 1), Method::kBatchedTopK);
  EXPECT_EQ(ChooseMethod(1, kMaxBatchedLength + 1, 1), Method::kTopK);
  EXPECT_EQ(ChooseMethod(1, 1 << 20, 100), Method::kTopK);
  EXPECT_EQ(ChooseMethod(1, 1 << 20, 1 << 19), Method::kRadixSort);
  EXPECT_EQ(ChooseMethod(4096, 200000, 1024), Method::kTopK);
  EXPECT_EQ(ChooseMethod(4096, 8400, 300), Method::kSegmentedSort);
  EXPECT_EQ(ChooseMethod(4096, 8400, 8000), Method::kSegmentedSort);
  EXPECT_EQ(ChooseSort(1, 2), Method::kRadixSort);
  EXPECT_EQ(ChooseSort(2, 100), Method::kSegmentedSort);
  EXPECT_EQ(ChooseSort(2, 1 << 20), Method::kRadixSort);
}

TEST(CudaItems, DividesNumbersOfAnySize) {
  constexpr int64_t kWide = int64_t{1} << 40;
  for (const int64_t b : {int64_t{1}, int64_t{7}, kWide + 1}) {
    for (const int64_t a : {int64_t{0}, int64_t{6}, kWide, INT64_MAX}) {
      EXPECT_EQ(Divide(a, b).quotient, a / b);
      EXPECT_EQ(Divide(a, b).remainder, a % b);
    }
  }
}

// The key of the table's rule, narrow types in their own width.
template <class Key>
uint64_t TableKey(const DTypeInfo& type, bool largest, uint64_t bits) {
  const Key own = static_cast<Key>(bits);
  return type.is_float ? SortKeyEncoder<Key, true>(type, largest)(own)
                       : SortKeyEncoder<Key, false>(type, largest)(own);
}

uint64_t TableKey(const DTypeInfo& type, bool largest, uint64_t bits) {
  switch (type.bytes) {
    case 1:
      return TableKey<uint8_t>(type, largest, bits);
    case 2:
      return TableKey<uint16_t>(type, largest, bits);
    case 4:
      return TableKey<uint32_t>(type, largest, bits);
    default:
      return TableKey<uint64_t>(type, largest, bits);
  }
}

uint64_t RuleKey(const KeyRule& rule, uint64_t bits) {
  return rule.bytes <= 4 ? KeyOf<uint32_t>(rule, static_cast<uint32_t>(bits))
                         : KeyOf<uint64_t>(rule, bits);
}

TEST(CudaKeyRule, OrdersEveryTypeLikeTheCpu) {
  std::mt19937_64 random(7);
  for (const DTypeInfo& type : DTypes()) {
    const uint64_t all =
        type.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * type.bytes) - 1;
    // Both zeros, infinities, NaNs, their neighbours, and others.
    std::vector<uint64_t> bits = {0, 1, all, all - 1};
    for (const uint64_t edge : {type.sign, type.infinity}) {
      for (const uint64_t near : {edge - 1, edge, edge + 1}) {
        bits.push_back(near & all);
        bits.push_back((near ^ type.sign) & all);
      }
    }
    for (int i = 0; i < 300; ++i) bits.push_back(random() & all);
    for (const bool largest : {true, false}) {
      const KeyRule rule = RuleOf(type, largest);
      for (const uint64_t a : bits) {
        for (const uint64_t b : bits) {
          ASSERT_EQ(RuleKey(rule, a) < RuleKey(rule, b),
                    TableKey(type, largest, a) < TableKey(type, largest, b))
              << type.name << " " << largest << " " << a << " " << b;
        }
      }
    }
  }
}

template <class Types>
void ExpectOrders() {
  const KeyRule rule = RuleOf(
      InfoOf(sizeof(typename Types::Bits) == 4 ? DType::kU32 : DType::kU64),
      true);
  const int64_t last =
      sizeof(typename Types::Bits) == 4 ? UINT32_MAX : INT64_MAX;
  // The greater value first, whatever the indices; then the lower index.
  EXPECT_GT(Types::OrderOf(rule, 5, last), Types::OrderOf(rule, 4, 0));
  EXPECT_GT(Types::OrderOf(rule, 5, 0), Types::OrderOf(rule, 5, 1));
  EXPECT_GT(Types::OrderOf(rule, 5, last - 1), Types::OrderOf(rule, 5, last));
  for (const int64_t index : {int64_t{0}, int64_t{1}, last - 1, last}) {
    const auto order = Types::OrderOf(rule, 5, index);
    EXPECT_EQ(Types::IndexOf(order, Arrangement::kByValue), index);
    EXPECT_EQ(Types::IndexOf(Types::ByIndex(order), Arrangement::kByIndex),
              index);
  }
  EXPECT_GT(Types::ByIndex(Types::OrderOf(rule, 0, 3)),
            Types::ByIndex(Types::OrderOf(rule, 9, 4)));
}

TEST(CudaItems, OrderByKeyThenByLowerIndex) {
  ExpectOrders<NarrowItems>();
  ExpectOrders<WideItems>();
}

TEST(CudaChunks, CoverEachPositionOnce) {
=======
TEST(CudaParts, CoverEachRowOnce) {
>>>>>>> wt_unit:tests/unit/cuda_parts_test.cc
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
  // At least the copy into pinned memory, 10 GB/s at most.
  EXPECT_GT(cost({1, 10000000}, 5), 4000000);
}

}  // namespace
}  // namespace topk::cuda
