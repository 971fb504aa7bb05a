// The kernels of the CUDA backend on a simulated device: results, also of
// tensors in device memory, and errors of every call.
// tests/integration/cuda_memory_test.cc tests the server.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/elements.h"
#include "tests/support/backends.h"
#include "tests/support/cuda/fake_runtime.h"
#include "tests/support/cuda/host_block.h"
#include "tests/support/cuda/shared_device.h"
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

std::unique_ptr<Backend> MakeBackend(int64_t chunk_bytes = 256,
                                     int64_t memory_limit = 0) {
  std::vector<std::string> errors;
  return MakeCudaBackend(cuda::OpenDevices(memory_limit, 1, errors),
                         chunk_bytes);
}

DeviceRegion RegionOf(const SharedAllocation& memory, size_t offset,
                      int64_t bytes) {
  return {memory.handle(), SharedDeviceUuid(), static_cast<int64_t>(offset),
          bytes};
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
  const auto prepared = backend.PrepareResident(plan, SharedDeviceUuid());
  if (prepared == nullptr) {
    return {Code::kUnavailable, "DEVICE_LOST", "", "not prepared"};
  }
  answer.values.resize(static_cast<size_t>(plan.values.bytes));
  answer.indices.resize(static_cast<size_t>(plan.indices.bytes));
  const Execution execution =
      prepared->Run({tensor.get(), values_on_device ? values.get() : nullptr,
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

TEST(CudaResident, EqualsTheOracle) {
  const ScopedFakeCuda fake;
  // With little memory, processes the tensor in chunks.
  for (const int64_t memory_limit : {0, 10000}) {
    const auto backend = MakeBackend(256, memory_limit);
    for (const DType type : {DType::kF16, DType::kI32, DType::kU64}) {
      for (const auto& [shape, axis] :
           {std::pair{std::vector<int64_t>{3, 500}, 1},
            std::pair{std::vector<int64_t>{40, 9, 3}, 1},
            std::pair{std::vector<int64_t>{70, 3}, 0}}) {
        const Plan plan = ValidPlan(Ask(type, shape, axis, 9));
        const std::string tensor =
            SomeData(type, plan.input.bytes / InfoOf(type).bytes, 3, 20);
        for (const bool values : {false, true}) {
          for (const bool indices : {false, true}) {
            PlanMemory memory(plan, tensor);
            Answer answer;
            ASSERT_TRUE(RunResident(*backend, plan, memory, values, indices,
                                    nullptr, answer)
                            .ok());
            EXPECT_EQ(answer, SlowAnswer(plan, tensor));
          }
        }
      }
    }
  }
  EXPECT_EQ(CountShared(), 0u);
}

// Each call of the CUDA runtime fails in turn.
TEST(CudaResident, ReportsErrorsAndClosesTheMemory) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {600}, 0, 20));
  const std::string tensor = SomeData(DType::kF32, 600, 3);
  const Answer right = SlowAnswer(plan, tensor);
  PlanMemory memory(plan, tensor);
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorMemoryAllocation}) {
    int failed = 0;
    for (int64_t calls = 0;; ++calls) {
      ScopedFakeCuda fake;
      const auto backend = MakeBackend();
      fake.Set({.calls_until_error = calls,
                .error = error,
                .sticky = error == cudaErrorIllegalAddress});
      Answer answer;
      const Status status =
          RunResident(*backend, plan, memory, true, false, nullptr, answer);
      const bool is_last = fake.calls() <= calls;
      fake.Set({});
      if (status.ok()) {  // or a call failed that only frees resources
        EXPECT_EQ(answer, right) << calls;
      } else {
        ++failed;
        EXPECT_EQ(status.reason, error == cudaErrorIllegalAddress
                                     ? "DEVICE_LOST"
                                     : "DEVICE_MEMORY")
            << calls;
      }
      if (is_last) break;
    }
    EXPECT_GT(failed, 30);
    EXPECT_EQ(CountShared(), 0u);
  }
}

TEST(CudaResident, StopsWhenCancelled) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  PlanMemory memory(plan, SomeData(DType::kF32, 900, 3));
  const ScopedFakeCuda fake;
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

TEST(CudaResident, ReportsHandlesThatCannotBeOpened) {
  ScopedFakeCuda fake;
  const auto backend = MakeBackend();
  SharedAllocation memory(8);
  for (const cudaError_t error :
       {cudaErrorInvalidValue, cudaErrorInvalidResourceHandle,
        cudaErrorDeviceUninitialized}) {
    fake.Set({.calls_until_error = 0,
              .error = error,
              .sticky = false,
              .function = "cudaIpcOpenMemHandle"});
    const auto opened = backend->OpenMemory(RegionOf(memory, 0, 8), "x");
    EXPECT_EQ(opened.status().code, Code::kInvalidArgument);
    EXPECT_EQ(opened.status().field, "x.ipc_handle");
    EXPECT_FALSE(backend->Devices()[0].lost);
    EXPECT_TRUE(backend->OpenMemory(RegionOf(memory, 0, 8), "x").ok());
  }
}

// The work of a cancelled request may still use the memory. Later requests
// close the memory, and so does monitoring.
TEST(CudaResident, KeepsMemoryOpenUntilTheDeviceHasFinished) {
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  const Plan other = ValidPlan(Ask(DType::kF32, {3}, 0, 2));
  for (const bool is_monitored : {false, true}) {
    ScopedFakeCuda fake({.devices = 2});
    const auto backend = MakeBackend();
    PlanMemory memory(plan, SomeData(DType::kF32, 900, 3));
    Cancellation cancellation;
    fake.Hang(true);
    {
      std::jthread running([&] {
        Answer answer;
        (void)RunResident(*backend, plan, memory, true, true, &cancellation,
                          answer);
      });
      while (!fake.has_work()) std::this_thread::yield();
      cancellation.Cancel();
    }
    EXPECT_EQ(CountShared(), 1u);
    fake.Hang(false);
    while (CountShared() != 0) {
      // The memory is on device 0.
      ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
      if (is_monitored) {
        backend->Devices();
      } else {
        RunPlan(*backend, other, std::string(12, 'x'));
      }
    }
  }
}

#ifndef TOPK_TSAN  // would report the intended races
// The elements change while the kernel runs: all indices must still be valid,
// and nothing else may be written, which AddressSanitizer checks.
TEST(CudaResident, SurvivesChangingElements) {
  constexpr int64_t kLength = 20000;
  const Plan plan = ValidPlan(Ask(DType::kU32, {kLength}, 0, 300));
  PlanMemory memory(plan, SomeData(DType::kU32, kLength, 1));
  const ScopedFakeCuda fake;
  const auto backend = MakeBackend();
  std::atomic<bool> stop = false;
  std::jthread changer([&] {
    Random random(1);
    auto* const elements =
        reinterpret_cast<uint32_t*>(memory.allocation.bytes().data());
    while (!stop) {
      std::atomic_ref(elements[random() % kLength])
          .store(static_cast<uint32_t>(random()), std::memory_order_relaxed);
    }
  });
  for (int i = 0; i < 30; ++i) {
    Answer answer;
    EXPECT_TRUE(
        RunResident(*backend, plan, memory, false, false, nullptr, answer)
            .ok());
    std::vector<int64_t> indices(300);
    std::memcpy(indices.data(), answer.indices.data(), answer.indices.size());
    std::ranges::sort(indices);
    EXPECT_GE(indices.front(), 0);
    EXPECT_LT(indices.back(), kLength);
    EXPECT_EQ(std::ranges::adjacent_find(indices), indices.end());
  }
  stop = true;
}
#endif

TEST(CudaResident, ReadsAndWritesInParts) {
  const ScopedFakeCuda fake;
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
  const ScopedFakeCuda fake;
  const Plan plan = ValidPlan(Ask(DType::kF32, {9000}, 0, 5000));
  const std::string uuid = SharedDeviceUuid();
  EXPECT_NE(MakeBackend()->PrepareResident(plan, uuid), nullptr);
  EXPECT_EQ(MakeBackend()->PrepareResident(plan, std::string(16, 'x')),
            nullptr);
  const Plan packed = ValidPlan(Ask(DType::kU4, {3, 300}, 1, 20));
  EXPECT_EQ(MakeBackend()->PrepareResident(packed, uuid), nullptr);
  // More than the device's probe needs.
  EXPECT_EQ(MakeBackend(256, 10000)->PrepareResident(plan, uuid), nullptr);
}

}  // namespace
}  // namespace topk::testing
