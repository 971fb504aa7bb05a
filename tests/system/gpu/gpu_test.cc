// Tests the CUDA backend on a real device: results are byte-identical to those
// of the other backends. Skipped without a device. (In a build with CUDA, the
// conformance and exhaustive tests also run on the device.)
#include <gtest/gtest.h>

#include <thread>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/support/case_file.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> errors;
    if (cuda::OpenDevices(0, 1, errors).empty()) GTEST_SKIP() << errors.front();
  }

  static std::unique_ptr<Backend> OnDevice(
      int64_t chunk_bytes = cuda::kChunkBytes) {
    std::vector<std::string> errors;
    return MakeCudaBackend(cuda::OpenDevices(0, 4, errors), chunk_bytes);
  }

  static std::unique_ptr<Backend> OnCpu() {
    return MakeCpuBackend(static_cast<int>(std::thread::hardware_concurrency()),
                          cpu::SupportedInstructionSets().front());
  }
};

TEST_F(Gpu, PassesEveryCase) {
  Random random(1);
  int ran = 0;
  for (const int64_t bytes : {int64_t{200}, cuda::kChunkBytes}) {
    const auto backend = OnDevice(bytes);
    for (const Case& c : AllCases()) {
      if (!c.code.empty()) continue;
      SCOPED_TRACE(c.where);
      for (const NextPiece& next : {NextPiece(), PiecesOf(-1000, random)}) {
        const auto outcome = RunOn(*backend, c.request, next);
        if (!outcome) continue;
        ASSERT_TRUE(outcome->ok());
        ASSERT_EQ(Comparable(**outcome), Comparable(Oracle(c.request)));
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 200);
}

// Compares long slices of all kinds of data, for all methods, with the CPU.
TEST_F(Gpu, ComputesLongSlices) {
  struct Shape {
    std::vector<int64_t> shape;
    int64_t axis;
    std::vector<int64_t> k;
  };
  const std::vector<Shape> shapes = {
      {{1, 1 << 20}, 1, {1, 100, 5000, 1 << 19, 1 << 20}},
      {{64, 100000}, 1, {1, 50, 30000}},
      {{4096, 256}, 1, {1, 8, 255, 256}},
      {{200, 8400}, 1, {1, 300}},
      {{4, 1000, 300}, 1, {1, 5, 900}},
      {{20000, 64}, 0, {1, 10}},
      {{30, 3000}, 1, {1024, 1025, 2048, 2049, 3000}},  // the largest filtered
      {{1, 9000000}, 1, {1, 1000}},                     // more than a piece
  };
  const auto gpu = OnDevice();
  const auto cpu = OnCpu();
  for (const Shape& shape : shapes) {
    for (const int64_t k : shape.k) {
      for (const DType type :
           {DType::kF32, DType::kU8, DType::kBF16, DType::kI64, DType::kF64}) {
        int64_t count = 1;
        for (const int64_t size : shape.shape) count *= size;
        const int64_t bytes = InfoOf(type).bytes;
        // Random bits; ties; all equal; ascending; descending.
        std::vector<std::string> data = {SomeData(type, count, 1),
                                         SomeData(type, count, 2, 3),
                                         SomeData(type, count, 3, 1)};
        std::string ascending(static_cast<size_t>(count * bytes), '\0');
        for (int64_t i = 0; i < count; ++i) {
          const uint64_t bits = static_cast<uint64_t>(i);
          std::memcpy(ascending.data() + i * bytes, &bits,
                      static_cast<size_t>(bytes));
        }
        data.push_back(std::move(ascending));
        for (const bool largest : {true, false}) {
          PlanRequest request = Ask(type, shape.shape, shape.axis, k);
          request.direction =
              largest ? Direction::kLargest : Direction::kSmallest;
          request.order = k % 2 == 0 ? Order::kValue : Order::kIndex;
          const Plan plan = ValidPlan(request);
          ASSERT_NE(gpu->Prepare(plan, Arrival::kWhole), nullptr);
          for (size_t i = 0; i < data.size(); ++i) {
            const Answer ours = RunPlan(*gpu, plan, data[i]);
            ASSERT_EQ(ours, RunPlan(*cpu, plan, data[i]))
                << ours.kernel << " " << InfoOf(type).name << " k " << k
                << " data " << i;
          }
        }
      }
    }
  }
}

TEST_F(Gpu, IsThreadSafe) {
  const auto gpu = OnDevice(400000);
  const Plan plan = ValidPlan(Ask(DType::kF32, {8, 100000}, 1, 100));
  const std::string data = SomeData(DType::kF32, 800000, 9);
  const Answer right = RunPlan(*OnCpu(), plan, data);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 20; ++j) EXPECT_EQ(RunPlan(*gpu, plan, data), right);
    });
  }
}

TEST_F(Gpu, ReleasesItsMemory) {
  const auto gpu = OnDevice();
  const Plan plan = ValidPlan(Ask(DType::kF32, {1 << 22}, 0, 1000));
  const std::string data = SomeData(DType::kF32, 1 << 22, 9);
  RunPlan(*gpu, plan, data);
  const int64_t after_one = gpu->Devices()[0].memory_bytes;
  for (int i = 0; i < 50; ++i) RunPlan(*gpu, plan, data);
  EXPECT_LE(gpu->Devices()[0].memory_bytes, after_one + (int64_t{64} << 20));
  EXPECT_FALSE(gpu->Devices()[0].lost);
}

}  // namespace
}  // namespace topk::testing
