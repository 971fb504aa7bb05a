// The arithmetic and the cost of the CUDA backend. tests/conformance checks how
// it splits a tensor.
#include <gtest/gtest.h>

#include <cstdint>

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

TEST(CudaChunks, BoundBytesWithoutOverflow) {
  Plan plan = ValidPlan(Ask(DType::kF64, {1, 1 << 20}, 1, 100));
  EXPECT_LT(DeviceBytes(plan, PositionsPerChunk(plan, kChunkBytes)),
            int64_t{200} << 20);
  plan.inner = int64_t{1} << 40;
  plan.n = int64_t{1} << 20;
  plan.k = plan.n;
  EXPECT_GT(DeviceBytes(plan, PositionsPerChunk(plan, kChunkBytes)),
            int64_t{1} << 62);
}

}  // namespace
}  // namespace topk::cuda
