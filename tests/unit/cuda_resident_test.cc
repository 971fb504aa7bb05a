// Plans on tensors in device memory, on a simulated device: results, and errors
// of every call. tests/integration/cuda_memory_test.cc tests the server.
#include "core/backends/cuda/resident.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/cuda_backend.h"
#include "tests/support/cuda/shared_device.h"
#include "tests/support/host_device.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

std::unique_ptr<Backend> MakeBackend(const HostDeviceOptions& options = {},
                                     int64_t chunk_elements = 64) {
  std::vector<std::unique_ptr<cuda::Device>> devices;
  devices.push_back(MakeHostDevice(options));
  return MakeCudaBackend(std::move(devices), chunk_elements);
}

DeviceRegion RegionOf(const SharedAllocation& memory, size_t offset,
                      int64_t bytes) {
  return {memory.handle(), std::string(kSharedDeviceUuid, 16),
          static_cast<int64_t>(offset), bytes};
}

// The memory of a plan's tensor and outputs.
struct PlanMemory {
  PlanMemory(const Plan& plan, const std::string& tensor)
      : values(static_cast<size_t>(plan.input.bytes)),
        indices(values + static_cast<size_t>(plan.values.bytes)),
        allocation(indices + static_cast<size_t>(plan.indices.bytes)) {
    std::ranges::copy(std::as_bytes(std::span(tensor)),
                      allocation.bytes().begin());
  }
  size_t values;
  size_t indices;
  SharedAllocation allocation;
};

// Runs a plan, with some of the outputs in device memory. Returns the first
// error.
Status RunResident(const Backend& backend, const Plan& plan, PlanMemory& memory,
                   bool values_on_device, bool indices_on_device,
                   const Cancellation* cancellation, Answer& answer) {
  Status status;
  const auto open = [&](size_t offset, int64_t bytes) {
    auto opened =
        backend.OpenMemory(RegionOf(memory.allocation, offset, bytes), "x");
    if (opened.ok()) return *std::move(opened);
    status = opened.status();
    return std::unique_ptr<DeviceMemory>();
  };
  const auto tensor = open(0, plan.input.bytes);
  const auto values = open(memory.values, plan.values.bytes);
  const auto indices = open(memory.indices, plan.indices.bytes);
  if (!status.ok()) return status;
  const auto prepared =
      backend.PrepareResident(plan, std::string(kSharedDeviceUuid, 16));
  if (prepared == nullptr) return Cancelled();
  answer.values.resize(static_cast<size_t>(plan.values.bytes));
  answer.indices.resize(static_cast<size_t>(plan.indices.bytes));
  const Execution execution = prepared->Run(
      {tensor.get(), values_on_device ? values.get() : nullptr,
       indices_on_device ? indices.get() : nullptr},
      {std::as_writable_bytes(std::span(answer.values)),
       std::as_writable_bytes(std::span(answer.indices))},
      cancellation);
  if (!execution.status.ok()) return execution.status;
  const auto read = [&](const auto& from, std::string& to) {
    status = from->Read(std::as_writable_bytes(std::span(to)), cancellation);
    return status.ok();
  };
  if (values_on_device && !read(values, answer.values)) return status;
  if (indices_on_device && !read(indices, answer.indices)) return status;
  return {};
}

TEST(CudaResident, EqualsTheCpu) {
  const auto cpu = MakeCpuBackend(1, cpu::SupportedInstructionSets().front());
  for (const DType type : {DType::kF16, DType::kI32, DType::kU64}) {
    for (const auto& [shape, axis] :
         {std::pair{std::vector<int64_t>{3, 500}, 1},
          std::pair{std::vector<int64_t>{40, 9, 3}, 1},
          std::pair{std::vector<int64_t>{70, 3}, 0}}) {
      for (const int64_t k : {1, 9}) {
        const Plan plan = ValidPlan(Ask(type, shape, axis, k));
        int64_t count = 1;
        for (const int64_t size : shape) count *= size;
        const std::string tensor = SomeData(type, count, 3, 20);
        for (const int64_t chunk : {16, 300, 100000}) {
          const auto backend = MakeBackend({}, chunk);
          for (const bool values : {false, true}) {
            for (const bool indices : {false, true}) {
              PlanMemory memory(plan, tensor);
              Answer answer;
              ASSERT_TRUE(RunResident(*backend, plan, memory, values, indices,
                                      nullptr, answer)
                              .ok());
              EXPECT_EQ(answer, RunPlan(*cpu, plan, tensor));
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(CountShared(), 0u);
}

// The device fails at each call in turn, or runs out of memory.
TEST(CudaResident, ReportsErrorsAndClosesTheMemory) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  const std::string tensor = SomeData(DType::kF32, 900, 3);
  for (const bool lost : {true, false}) {
    int64_t failed = 0;
    for (int64_t calls = 0;; ++calls) {
      HostDeviceOptions options;
      (lost ? options.calls_until_lost : options.calls_until_full) = calls;
      const auto backend = MakeBackend(options);
      PlanMemory memory(plan, tensor);
      Answer answer;
      const Status status =
          RunResident(*backend, plan, memory, true, false, nullptr, answer);
      EXPECT_EQ(CountShared(), 0u);
      if (status.ok()) break;
      ++failed;
      // A device that is lost before PrepareResident() is not used.
      EXPECT_TRUE(status.code == Code::kCancelled ||
                  status.reason == (lost ? "DEVICE_LOST" : "DEVICE_MEMORY"))
          << calls << status.reason;
    }
    EXPECT_GT(failed, 20);
  }
}

TEST(CudaResident, StopsWhenCancelled) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  PlanMemory memory(plan, SomeData(DType::kF32, 900, 3));
  const auto backend = MakeBackend();
  Cancellation cancellation;
  cancellation.Cancel();
  const auto region =
      backend->OpenMemory(RegionOf(memory.allocation, 0, 3600), "x");
  ASSERT_TRUE(region.ok());
  std::vector<std::byte> bytes(3600);
  EXPECT_EQ((*region)->Read(bytes, &cancellation).code, Code::kCancelled);
  const std::vector<std::byte> before(memory.allocation.bytes().begin(),
                                      memory.allocation.bytes().end());
  EXPECT_EQ((*region)->Write(bytes, &cancellation).code, Code::kCancelled);
  Answer answer;
  (void)RunResident(*backend, plan, memory, true, true, &cancellation, answer);
  EXPECT_TRUE(std::ranges::equal(memory.allocation.bytes(), before));
}

TEST(CudaResident, ReadsAndWritesInParts) {
  const auto backend = MakeBackend();
  constexpr size_t kBytes = (size_t{17} << 20) + 5;
  SharedAllocation memory(kBytes + 1);
  const auto region = backend->OpenMemory(RegionOf(memory, 1, kBytes), "x");
  ASSERT_TRUE(region.ok());
  std::vector<std::byte> bytes(kBytes);
  for (size_t i = 0; i < kBytes; i += 999) bytes[i] = std::byte(i >> 9);
  ASSERT_TRUE((*region)->Write(bytes, nullptr).ok());
  EXPECT_EQ(std::memcmp(memory.bytes().data() + 1, bytes.data(), kBytes), 0);
  std::vector<std::byte> read(kBytes);
  ASSERT_TRUE((*region)->Read(read, nullptr).ok());
  EXPECT_EQ(std::memcmp(read.data(), bytes.data(), kBytes), 0);
}

TEST(CudaResident, DeclinesWhatItCannotRun) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  const std::string uuid(kSharedDeviceUuid, 16);
  EXPECT_NE(MakeBackend()->PrepareResident(plan, uuid), nullptr);
  EXPECT_EQ(MakeBackend()->PrepareResident(plan, std::string(16, 'x')),
            nullptr);
  const Plan packed = ValidPlan(Ask(DType::kU4, {3, 300}, 1, 20));
  EXPECT_EQ(MakeBackend()->PrepareResident(packed, uuid), nullptr);
  EXPECT_EQ(
      MakeBackend({.memory_limit = 1000})->PrepareResident(plan, uuid),
      nullptr);
}

}  // namespace
}  // namespace topk::testing
