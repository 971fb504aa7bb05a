// The kernels of the CUDA backend, on the simulated CUDA runtime.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/backends/cuda/elements.h"
#include "tests/support/backends.h"
#include "tests/support/cuda/fake_runtime.h"
#include "tests/support/cuda/host_block.h"
#include "tests/support/generators.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

constexpr DType kTypes[] = {
    DType::kF16, DType::kBF16, DType::kF32,    DType::kF64,    DType::kI8,
    DType::kI16, DType::kI32,  DType::kI64,    DType::kU8,     DType::kU16,
    DType::kU32, DType::kU64,  DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0};

// A length near a multiple of a vector, a tile, a capacity or a part.
int64_t SomeLength(Random& random) {
  constexpr int64_t kUnits[] = {1, 8, 32, 512, 1024, 2048, 4096, 8192};
  const int64_t unit = kUnits[Pick(random, 0, 7)];
  return std::max<int64_t>(unit * Pick(random, 1, 5) + Pick(random, -9, 9), 1);
}

// Makes most elements NaNs, so that the k-th is often a NaN.
void AddNaNs(Random& random, const DTypeInfo& type, std::string& data) {
  const auto bytes = static_cast<size_t>(type.bytes);
  for (size_t at = 0; at < data.size(); at += bytes) {
    const uint64_t draw = random();
    if (draw % 16 == 0) continue;
    const uint64_t bits =
        (type.infinity + 1 + draw / 32 % (type.sign - type.infinity - 1)) |
        (draw % 32 < 16 ? 0 : type.sign);
    std::memcpy(&data[at], &bits, bytes);
  }
}

TEST(CudaKernels, EqualTheOracle) {
  const ScopedFakeCuda fake;
  Random random(Seed(20261128));
  for (int i = 0; i < 600; ++i) {
    const DType type = kTypes[i % std::size(kTypes)];
    const int64_t n = SomeLength(random);
    // For a small k, Filter uses one warp or many parts; for a large k, sorts.
    constexpr int64_t kMost[] = {64, 512, 2048, 1 << 20};
    const int64_t most = std::min(n, kMost[Pick(random, 0, 3)]);
    const int64_t k = Pick(random, 0, 3) == 0 ? most : Pick(random, 1, most);
    const bool columns = Pick(random, 0, 3) == 0 && n < 2000;
    const int64_t inner = columns ? Pick(random, 2, 40) : 1;
    const int64_t outer = Pick(random, 1, n < 2000 ? 3 : 1);
    PlanRequest request = Ask(type, {outer, n, inner}, 1, k);
    request.direction =
        Pick(random, 0, 1) == 0 ? Direction::kLargest : Direction::kSmallest;
    request.order = Pick(random, 0, 2) == 0 ? Order::kIndex : Order::kValue;
    if (Pick(random, 0, 1) == 0) request.index_type = DType::kI32;
    const Plan plan = ValidPlan(request);
    std::string data =
        RandomData(random, static_cast<v1::DataType>(type), outer * n * inner);
    if (InfoOf(type).is_float && Pick(random, 0, 3) == 0) {
      AddNaNs(random, InfoOf(type), data);
    }
    const auto bytes = static_cast<int64_t>(data.size());
    const int64_t chunk =
        Pick(random, 0, 1) == 0 ? Pick(random, 1, bytes) : bytes;
    ASSERT_EQ(RunPlan(*FakeCudaBackend(chunk), plan, data),
              SlowAnswer(plan, data))
        << InfoOf(type).name << " [" << outer << ", " << n << ", " << inner
        << "] k " << k << " chunk " << chunk;
  }
}

// With threads that run at the same time, for ThreadSanitizer.
TEST(CudaKernels, HaveNoRaces) {
  const ScopedFakeCuda fake;
  const auto run = [&](DType type, int64_t n, int64_t inner, int64_t k,
                       Order order) {
    const auto backend = FakeCudaBackend(1 << 20);
    PlanRequest request = Ask(type, {1, n, inner}, 1, k);
    request.order = order;
    const Plan plan = ValidPlan(request);
    // The elements ascend, so that many exceed the bound.
    const auto bytes = static_cast<size_t>(InfoOf(type).bytes);
    std::string data(bytes * n * inner, '\0');
    for (int64_t i = 0; i < n * inner; ++i) {
      const int64_t bits = bytes == 1 ? i * 256 / (n * inner) : i;
      std::memcpy(&data[i * bytes], &bits, bytes);
    }
    threads_run_at_once = true;
    EXPECT_EQ(RunPlan(*backend, plan, data), SlowAnswer(plan, data));
    threads_run_at_once = false;
  };
  run(DType::kF64, 900, 3, 20, Order::kIndex);     // a transposed tensor
  run(DType::kF32, 20000, 1, 500, Order::kValue);  // two parts
  // More elements at a time than fit, for a block of 32 threads and of 256.
  run(DType::kU8, 1024, 1, 20, Order::kValue);
  run(DType::kU8, 12288, 1, 2000, Order::kIndex);
}

TEST(CudaElements, DivideNumbersOfAnySize) {
  constexpr int64_t kWide = int64_t{1} << 40;
  for (const int64_t b : {int64_t{1}, int64_t{7}, kWide + 1}) {
    for (const int64_t a : {int64_t{0}, int64_t{6}, kWide, INT64_MAX}) {
      EXPECT_EQ(cuda::Divide(a, b).quotient, a / b);
      EXPECT_EQ(cuda::Divide(a, b).remainder, a % b);
    }
  }
}

}  // namespace
}  // namespace topk::testing
