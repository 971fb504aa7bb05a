// The CUDA backend on a simulated runtime: its start, errors, limits and the
// engine's fallback. tests/conformance checks its results.
#include "core/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/probe.h"
#include "core/dialects/registry.h"
#include "core/engine.h"
#include "tests/support/backends.h"
#include "tests/support/compute.h"
#include "tests/support/cuda/fake_runtime.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/requests.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Small chunks, so that small tensors have several.
constexpr int64_t kFewBytes = 256;

using Devices = std::vector<std::unique_ptr<cuda::Device>>;

// Returns the devices of the simulated machine.
Devices Open(int64_t memory = 0) {
  std::vector<std::string> errors;
  Devices devices = cuda::OpenDevices(memory, 2, errors);
  EXPECT_THAT(errors, IsEmpty());
  return devices;
}

std::unique_ptr<Backend> Cpu() {
  return MakeCpuBackend(1, cpu::SupportedInstructionSets().front());
}

Engine MakeEngine(Devices devices, const char* choice = "cuda",
                  const cuda::Speeds& speeds = {},
                  std::function<void(const std::string&)> log = {}) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCudaBackend(std::move(devices), kFewBytes, speeds));
  backends.push_back(Cpu());
  EngineOptions options;
  options.backends.choice = choice;
  options.backends.log = std::move(log);
  return Engine(options, std::move(backends));
}

v1::TopKRequest SomeRequest(int64_t rows, int64_t n, int64_t k) {
  Random random(5);
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_F32, {rows, n}, k);
  request.mutable_tensor()->set_data(
      RandomData(random, v1::DATA_TYPE_F32, rows * n));
  return request;
}

// Returns the device memory that a request reserves.
int64_t MemoryFor(const v1::TopKRequest& request) {
  const Result<Plan> plan = Lower(request, Limits());
  return cuda::DeviceBytes(*plan, cuda::BatchesPerChunk(*plan, kFewBytes));
}

// Starts a stream for a request.
Result<std::unique_ptr<TensorStream>> Start(const Engine& engine,
                                            v1::TopKRequest request) {
  request.mutable_tensor()->clear_source();
  return StartStream(engine, request);
}

std::span<const std::byte> Data(const v1::TopKRequest& request) {
  return std::as_bytes(std::span(request.tensor().data()));
}

// Returns the bytes of the outputs.
std::string Bytes(const v1::TopKResponse& response) {
  return response.values().data() + response.indices().data();
}

std::string RightBytes(const v1::TopKRequest& request) {
  return Bytes(Oracle(request));
}

std::vector<std::string> WhyNoDevice(const FakeCuda& machine) {
  const ScopedFakeCuda fake(machine);
  std::vector<std::string> errors;
  EXPECT_THAT(cuda::OpenDevices(0, 1, errors), IsEmpty());
  return errors;
}

TEST(CudaDevices, SayWhyThereIsNone) {
  EXPECT_THAT(WhyNoDevice({.devices = 0}),
              ElementsAre(HasSubstr("this machine has no CUDA device")));
  EXPECT_THAT(WhyNoDevice({.driver = 0}),
              ElementsAre(HasSubstr("this machine has no NVIDIA driver")));
  EXPECT_THAT(WhyNoDevice({.driver = 12040}),
              ElementsAre(HasSubstr("needs version 580 or later")));
}

// An error that is permanent but not sticky, e.g. because the program has no
// code for the device, must not cost each request an upload.
TEST(CudaDevices, AreNotUsedIfTheyCannotRunAKernel) {
  EXPECT_THAT(WhyNoDevice({.calls_until_error = 0,
                           .error = cudaErrorNoKernelImageForDevice,
                           .sticky = false,
                           .function = "launch"}),
              ElementsAre(HasSubstr("cudaErrorNoKernelImageForDevice")));
}

TEST(CudaDevices, AreUsedWithoutThoseThatFailToStart) {
  for (int64_t calls = 0;; ++calls) {
    ScopedFakeCuda fake(
        {.devices = 2, .calls_until_error = calls, .device = 0});
    std::vector<std::string> errors;
    const auto devices = cuda::OpenDevices(0, 1, errors);
    if (fake.calls() <= calls) {
      EXPECT_GT(calls, 20);
      EXPECT_THAT(devices, ::testing::SizeIs(2));
      EXPECT_THAT(errors, IsEmpty());
      break;
    }
    ASSERT_EQ(devices.size() + errors.size(), 2U) << calls;
  }
}

TEST(CudaBackend, DeclinesWhatItCannotRun) {
  const ScopedFakeCuda fake;
  const auto runs = [](const Plan& plan, int64_t memory = 1 << 30) {
    return MakeCudaBackend(Open(memory))->Prepare(plan, Arrival::kWhole) !=
           nullptr;
  };
  EXPECT_TRUE(runs(ValidPlan(Ask(DType::kF32, {4, 100}, 1, 5))));
  const Plan large = ValidPlan(Ask(DType::kF32, {1 << 22}, 0, 5));
  EXPECT_TRUE(runs(large));
  EXPECT_FALSE(runs(large, 1 << 20));
  PlanRequest strided = Ask(DType::kF32, {4, 100}, 1, 5);
  strided.strides = {200, 2};
  EXPECT_FALSE(runs(ValidPlan(strided)));
  EXPECT_FALSE(runs(ValidPlan(Ask(DType::kU4, {4, 100}, 1, 5))));
  EXPECT_FALSE(runs(ValidPlan(Ask(DType::kF32, {0, 100}, 1, 5))));
  Plan long_axis = ValidPlan(Ask(DType::kU8, {4, 100}, 1, 5));
  long_axis.n = (int64_t{1} << 32) + 1;
  EXPECT_FALSE(runs(long_axis));
  long_axis.dtype = DType::kF64;  // wide items have wide indices
  EXPECT_TRUE(runs(long_axis, int64_t{1} << 40));
}

TEST(CudaBackend, BoundsBytesWithoutOverflow) {
  Plan plan = ValidPlan(Ask(DType::kF64, {1, 1 << 20}, 1, 100));
  const auto bytes = [&] {
    return cuda::DeviceBytes(plan,
                             cuda::BatchesPerChunk(plan, cuda::kChunkBytes));
  };
  EXPECT_LT(bytes(), int64_t{200} << 20);
  plan.inner = int64_t{1} << 40;
  plan.n = plan.k = int64_t{1} << 20;
  EXPECT_GT(bytes(), int64_t{1} << 62);
}

TEST(CudaEngine, ReportsTheBackendThatRan) {
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open());
  const v1::TopKRequest request = SomeRequest(4, 500, 5);
  const auto response = Compute(engine, request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->execution().backend(), "cuda");
  EXPECT_EQ(response->execution().kernel(), "cuda_filter");
  EXPECT_EQ(response->execution().instruction_set(), "sm_90");
  EXPECT_EQ(Bytes(*response), RightBytes(request));
  const std::vector<DeviceState> devices = engine.Devices();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "fake 0");
  EXPECT_GT(devices[0].memory_bytes, 0);
}

TEST(CudaEngine, ChoosesTheFasterBackend) {
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open(), kAutoBackend);
  const auto small = Compute(engine, SomeRequest(4, 100, 5));
  EXPECT_EQ(small->execution().backend(), "cpu");
  // The CPU takes much longer to sort than CUDA takes to copy the tensor.
  const auto sorted = Compute(engine, SomeRequest(1, 2000000, 2000000));
  EXPECT_EQ(sorted->execution().backend(), "cuda");
  // A scan takes less time than the copy.
  const auto scanned = Compute(engine, SomeRequest(1, 2000000, 5));
  EXPECT_EQ(scanned->execution().backend(), "cpu");
}

TEST(CudaEngine, ChoosesByTheSpeedsOfTheDevice) {
  ScopedFakeCuda fake;
  const v1::TopKRequest request = SomeRequest(1, 300000, 300000);
  const auto choice = [&](const cuda::Speeds& speeds) {
    const Engine engine = MakeEngine(Open(), kAutoBackend, speeds);
    return Compute(engine, request)->execution().backend();
  };
  EXPECT_EQ(choice({}), "cuda");
  EXPECT_EQ(choice({.request_nanoseconds = 1e8}), "cpu");
  EXPECT_EQ(choice({.copied_bytes = 0.04}), "cpu");
  EXPECT_EQ(choice({.sorted_elements = 0.003}), "cpu");

  fake.Set({.copy_time = std::chrono::milliseconds(5)});
  const auto slow = cuda::MeasureSpeeds(*Open().front());
  ASSERT_TRUE(slow.ok());
  EXPECT_GT(slow->request_nanoseconds, 5e6);
  EXPECT_LT(slow->copied_bytes, 1);
  EXPECT_EQ(choice(*slow), "cpu");

  fake.Set({});
  const auto fast = cuda::MeasureSpeeds(*Open().front());
  ASSERT_TRUE(fast.ok());
  EXPECT_GT(fast->copied_bytes, 0);
  EXPECT_GT(fast->sorted_elements, 0);
  const auto small = cuda::MeasureSpeeds(*Open(1 << 20).front());
  EXPECT_EQ(small.status().code, Code::kResourceExhausted);
}

// The CPU may have to replace the device after the device has done its work.
TEST(CudaEngine, ACostCoversBothBackends) {
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open());
  const Plan plan = ValidPlan(Ask(DType::kF32, {1, 1000000}, 1, 5));
  const auto nanoseconds = [&](const Backend& backend) {
    return backend.Prepare(plan, Arrival::kWhole)->cost().nanoseconds;
  };
  EXPECT_EQ(
      engine.Prepare(SomeRequest(1, 1000000, 5), 4000000, 1)->cost.nanoseconds,
      nanoseconds(*MakeCudaBackend(Open(), kFewBytes)) + nanoseconds(*Cpu()));
}

// Repeats a request until it runs on the device. Memory of an earlier request
// may be in use until the device has finished.
bool SoonRunsOnCuda(const Engine& engine, const v1::TopKRequest& request) {
  for (int tries = 0; tries < 1000; ++tries) {
    const auto response = Compute(engine, request);
    EXPECT_EQ(Bytes(*response), RightBytes(request));
    if (response->execution().backend() == "cuda") return true;
  }
  return false;
}

// The requests that the tests below run while each call of the runtime fails in
// turn. They use different methods, and their tensors have several chunks.
std::vector<v1::TopKRequest> SomeRequests() {
  return {SomeRequest(2, 120, 20), SomeRequest(40, 4, 3)};
}

TEST(CudaEngine, TheCpuReplacesALostDevice) {
  for (const v1::TopKRequest& request : SomeRequests()) {
    const std::string right = RightBytes(request);
    ScopedFakeCuda fake;
    int64_t lost = 0;
    for (int64_t calls = 0;; ++calls) {
      fake.Set({});
      const Engine engine = MakeEngine(Open());
      fake.Set({.calls_until_error = calls});
      const auto response = Compute(engine, request);
      ASSERT_TRUE(response.ok()) << calls << response.status().message;
      ASSERT_EQ(Bytes(*response), right) << calls;
      if (response->execution().backend() == "cuda") {
        if (fake.calls() <= calls) break;
        continue;  // the error occurred after the last download
      }
      ++lost;
      EXPECT_EQ(engine.fallbacks_lost(), 1) << calls;
      EXPECT_TRUE(engine.Devices()[0].lost);
      // The engine does not use the lost device again.
      ASSERT_EQ(Bytes(*Compute(engine, request)), right);
      EXPECT_EQ(engine.fallbacks_lost(), 1) << calls;
    }
    EXPECT_GT(lost, 20);
  }
}

// Also checks that a request that fails keeps no reservation of memory, and
// leaves no error for the thread's next request.
TEST(CudaEngine, ACallThatFailsOnceAffectsOnlyOneRequest) {
  for (const v1::TopKRequest& request : SomeRequests()) {
    const std::string right = RightBytes(request);
    for (const cudaError_t error :
         {cudaErrorNoKernelImageForDevice, cudaErrorMemoryAllocation}) {
      ScopedFakeCuda fake;
      int64_t fallbacks = 0;
      for (int64_t calls = 0;; ++calls) {
        fake.Set({});
        const Engine engine = MakeEngine(Open(MemoryFor(request)));
        fake.Set({.calls_until_error = calls, .error = error, .sticky = false});
        const auto response = Compute(engine, request);
        ASSERT_TRUE(response.ok()) << calls << response.status().message;
        ASSERT_EQ(Bytes(*response), right) << calls;
        if (fake.calls() <= calls) break;
        const bool full = error == cudaErrorMemoryAllocation;
        const int64_t counted =
            full ? engine.fallbacks_full() : engine.fallbacks_lost();
        const bool failed = response->execution().backend() == "cpu";
        EXPECT_EQ(counted, failed ? 1 : 0) << calls;
        EXPECT_FALSE(engine.Devices()[0].lost);
        fallbacks += counted;
        EXPECT_TRUE(SoonRunsOnCuda(engine, request)) << calls;
      }
      EXPECT_GT(fallbacks, 20);
    }
  }
}

TEST(CudaEngine, AnotherDeviceReplacesALostOne) {
  ScopedFakeCuda fake({.devices = 2});
  const Engine engine = MakeEngine(Open());
  const v1::TopKRequest request = SomeRequest(2, 120, 20);
  const std::string right = RightBytes(request);
  fake.Set({.devices = 2, .calls_until_error = 5, .device = 0});
  int on_cuda = 0;
  for (int i = 0; i < 10; ++i) {
    const auto response = Compute(engine, request);
    ASSERT_EQ(Bytes(*response), right);
    on_cuda += response->execution().backend() == "cuda" ? 1 : 0;
  }
  EXPECT_EQ(on_cuda, 9);  // only the first request notices the loss
}

// The reason why the CPU runs a request is logged.
TEST(CudaEngine, LogsWhyTheCpuRunsARequest) {
  ScopedFakeCuda fake;
  std::vector<std::string> lines;
  const Engine engine =
      MakeEngine(Open(), "cuda", {},
                 [&](const std::string& line) { lines.push_back(line); });
  fake.Set({.calls_until_error = 0,
            .error = cudaErrorNoKernelImageForDevice,
            .sticky = false,
            .function = "launch"});
  ASSERT_TRUE(Compute(engine, SomeRequest(2, 120, 20)).ok());
  EXPECT_THAT(
      lines,
      ElementsAre(HasSubstr("fake 0 failed: cudaErrorNoKernelImageForDevice")));
}

// Threads that have not chosen a device destroy objects of both devices.
TEST(CudaEngine, DevicesCanBeUsedByAnyThread) {
  const ScopedFakeCuda fake({.devices = 2});
  const Engine engine = MakeEngine(Open());
  const v1::TopKRequest request = SomeRequest(2, 120, 20);
  const std::string right = RightBytes(request);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 10; ++j) {
          EXPECT_EQ(Bytes(*Compute(engine, request)), right);
        }
      });
    }
  }
  for (int i = 0; i < 2; ++i) {
    auto stream = Start(engine, request);
    ASSERT_TRUE((*stream)->Feed(Data(request).first(500)).ok());
    std::jthread([&] {
      stream->reset();
      EXPECT_EQ(engine.Devices().size(), 2U);
    });
  }
  EXPECT_EQ(engine.fallbacks_lost(), 0);
}

TEST(CudaStream, ALostDeviceEndsOnlyTheStream) {
  const v1::TopKRequest request = SomeRequest(2, 120, 20);
  const auto run = [&](const Engine& engine) {
    auto stream = Start(engine, request);
    EXPECT_TRUE(stream.ok());
    EXPECT_TRUE((*stream)->Feed(Data(request)).ok());
    return (*stream)->Finish();
  };
  ScopedFakeCuda fake;
  for (const bool sticky : {true, false}) {
    int64_t failed = 0;
    for (int64_t calls = 0;; ++calls) {
      fake.Set({});
      const Engine engine = MakeEngine(Open());
      fake.Set({.calls_until_error = calls, .sticky = sticky});
      const auto response = run(engine);
      if (!response.ok()) {
        EXPECT_EQ(response.status().code, Code::kUnavailable);
        EXPECT_EQ(response.status().reason, "DEVICE_LOST");
        EXPECT_EQ(engine.Devices()[0].lost, sticky);
        ++failed;
      }
      const auto next = run(engine);
      // The error may have occurred after the first stream.
      if (response.ok() && !next.ok()) continue;
      ASSERT_TRUE(next.ok()) << calls;
      EXPECT_EQ(Bytes(*next), RightBytes(request));
      if (fake.calls() <= calls) break;
    }
    EXPECT_GT(failed, 10);
  }
}

TEST(CudaStream, FoldsOnTheCpuIfTheDeviceIsFull) {
  const v1::TopKRequest request = SomeRequest(1, 300, 20);
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open(MemoryFor(request)));
  auto one = Start(engine, request);
  auto other = Start(engine, request);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(engine.fallbacks_full(), 1);
  for (auto* stream : {&one, &other}) {
    ASSERT_TRUE((**stream)->Feed(Data(request)).ok());
    const auto response = (**stream)->Finish();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->execution().backend(), stream == &one ? "cuda" : "cpu");
    EXPECT_EQ(Bytes(*response), RightBytes(request));
  }
}

// An idle stream keeps its memory, so it must not need much.
TEST(CudaStream, FoldsOnTheCpuIfItNeedsTheMemoryOfManyChunks) {
  const v1::TopKRequest request = SomeRequest(1, 3000, 20);
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open());
  auto stream = Start(engine, request);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->Feed(Data(request)).ok());
  EXPECT_EQ((*stream)->Finish()->execution().backend(), "cpu");
  EXPECT_EQ(Compute(engine, request)->execution().backend(), "cuda");
}

// Only the memory of the device limits the number of streams.
TEST(CudaStream, IdleStreamsDoNotKeepOthersFromTheDevice) {
  const v1::TopKRequest request = SomeRequest(2, 120, 20);
  const ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open());
  std::vector<std::unique_ptr<TensorStream>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(*Start(engine, request));
    ASSERT_TRUE(idle.back()->Feed(Data(request).first(500)).ok());
  }
  EXPECT_EQ(Compute(engine, request)->execution().backend(), "cuda");
  EXPECT_EQ(engine.fallbacks_full(), 0);
}

// A cancelled request returns although the device does not. Its memory is not
// available until the device has finished.
TEST(CudaEngine, ACancelledRequestDoesNotWaitForAHungDevice) {
  const v1::TopKRequest request = SomeRequest(2, 120, 20);
  ScopedFakeCuda fake;
  const Engine engine = MakeEngine(Open(MemoryFor(request)));
  fake.Hang(true);
  {
    Cancellation cancellation;
    const auto prepared = engine.Prepare(request, 960, 1);
    const auto data = Data(request);
    std::jthread caller([&] {
      const auto response =
          engine.Run(*prepared, std::span(&data, 1), &cancellation);
      EXPECT_EQ(response.status().code, Code::kCancelled);
    });
    while (!fake.has_work()) std::this_thread::yield();
    cancellation.Cancel();
  }
  EXPECT_EQ(Compute(engine, request)->execution().backend(), "cpu");
  EXPECT_EQ(engine.fallbacks_full(), 1);
  fake.Hang(false);
  EXPECT_TRUE(SoonRunsOnCuda(engine, request));
}

}  // namespace
}  // namespace topk::testing
