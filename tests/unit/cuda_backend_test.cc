// The CUDA backend on a simulated device: errors, limits and the engine's
// fallback. tests/conformance checks its results.
#include "core/backends/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include "core/backends/cpu/cpu_backend.h"
#include "core/engine.h"
#include "tests/support/backends.h"
#include "tests/support/compute.h"
#include "tests/support/generators.h"
#include "tests/support/host_device.h"
#include "tests/support/oracle.h"
#include "tests/support/requests.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using Devices = std::vector<std::unique_ptr<cuda::Device>>;

Devices Some(std::vector<HostDeviceOptions> options) {
  Devices devices;
  for (const HostDeviceOptions& each : options) {
    devices.push_back(MakeHostDevice(each));
  }
  return devices;
}

Engine MakeEngine(Devices devices, const char* choice = "cuda",
                  int64_t chunk_elements = 64) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCudaBackend(std::move(devices), chunk_elements));
  backends.push_back(
      MakeCpuBackend(1, cpu::SupportedInstructionSets().front()));
  EngineOptions options;
  options.backends.choice = choice;
  return Engine(options, std::move(backends));
}

v1::TopKRequest SomeRequest(int64_t rows, int64_t n, int64_t k) {
  Random random(5);
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_F32, {rows, n}, k);
  request.mutable_tensor()->set_data(
      RandomData(random, v1::DATA_TYPE_F32, rows * n));
  return request;
}

// Returns the bytes of the outputs.
std::string Bytes(const v1::TopKResponse& response) {
  return response.values().data() + response.indices().data();
}

std::string RightBytes(const v1::TopKRequest& request) {
  return Bytes(Oracle(request));
}

TEST(CudaBackend, DeclinesWhatItCannotRun) {
  const auto runs = [](const Plan& plan, int64_t memory = 1 << 30) {
    return MakeCudaBackend(Some({{.memory_limit = memory}}))
               ->Prepare(plan, Arrival::kWhole) != nullptr;
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
  EXPECT_TRUE(runs(long_axis));
}

TEST(CudaEngine, ReportsTheBackendThatRan) {
  const Engine engine = MakeEngine(Some({{}}));
  const v1::TopKRequest request = SomeRequest(4, 500, 5);
  const auto response = Compute(engine, request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->execution().backend(), "cuda");
  EXPECT_EQ(response->execution().kernel(), "cuda_filter");
  EXPECT_EQ(response->execution().instruction_set(), "host");
  EXPECT_EQ(Bytes(*response), RightBytes(request));
  const DeviceReport report = engine.Devices();
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_EQ(report.devices[0].name, "host");
  EXPECT_EQ(report.devices[0].memory_bytes, 0);
}

TEST(CudaEngine, ChoosesTheFasterBackend) {
  const Engine engine = MakeEngine(Some({{}}), kAutoBackend);
  const auto small = Compute(engine, SomeRequest(4, 100, 5));
  EXPECT_EQ(small->execution().backend(), "cpu");
  // The CPU takes much longer to sort than CUDA takes to copy the tensor.
  const auto sorted = Compute(engine, SomeRequest(1, 2000000, 2000000));
  EXPECT_EQ(sorted->execution().backend(), "cuda");
  // A scan takes less time than the copy.
  const auto scanned = Compute(engine, SomeRequest(1, 2000000, 5));
  EXPECT_EQ(scanned->execution().backend(), "cpu");
}

// The CPU may have to replace the device after the device has done its work.
TEST(CudaEngine, ACostCoversBothBackends) {
  const Engine engine = MakeEngine(Some({{}}));
  const Plan plan = ValidPlan(Ask(DType::kF32, {1, 1000000}, 1, 5));
  const auto nanoseconds = [&](const Backend& backend) {
    return backend.Prepare(plan, Arrival::kWhole)->cost().nanoseconds;
  };
  EXPECT_EQ(
      engine.Prepare(SomeRequest(1, 1000000, 5), 4000000, 1)->cost.nanoseconds,
      nanoseconds(*MakeCudaBackend(Some({{}}), 64)) +
          nanoseconds(
              *MakeCpuBackend(1, cpu::SupportedInstructionSets().front())));
  const auto working_bytes = [&](int64_t n) {
    return engine.Prepare(SomeRequest(1, n, n), 4 * n, 1)->cost.working_bytes;
  };
  EXPECT_EQ(working_bytes(10), Size(2 * cuda::kStagingBytes));
  EXPECT_GT(working_bytes(10000000), Size(2 * cuda::kStagingBytes));
}

// The device fails at each call in turn.
TEST(CudaEngine, TheCpuReplacesALostDevice) {
  const v1::TopKRequest request = SomeRequest(3, 300, 20);
  const std::string right = RightBytes(request);
  int64_t lost = 0;
  for (int64_t calls = 0;; ++calls) {
    const Engine engine = MakeEngine(Some({{.calls_until_lost = calls}}));
    const auto response = Compute(engine, request);
    ASSERT_TRUE(response.ok()) << calls << response.status().message;
    ASSERT_EQ(Bytes(*response), right) << calls;
    if (response->execution().backend() == "cuda") break;
    ++lost;
    EXPECT_EQ(engine.Devices().fallbacks_lost, 1) << calls;
    EXPECT_TRUE(engine.Devices().devices[0].lost);
    // The engine does not use the lost device again.
    ASSERT_EQ(Bytes(*Compute(engine, request)), right);
    EXPECT_EQ(engine.Devices().fallbacks_lost, 1) << calls;
  }
  EXPECT_GT(lost, 20);
}

TEST(CudaEngine, TheCpuReplacesAFullDevice) {
  const v1::TopKRequest request = SomeRequest(3, 300, 20);
  const std::string right = RightBytes(request);
  int64_t full = 0;
  for (int64_t calls = 0; calls < 200; ++calls) {
    const Engine engine = MakeEngine(Some({{.calls_until_full = calls}}));
    ASSERT_EQ(Bytes(*Compute(engine, request)), right) << calls;
    full += engine.Devices().fallbacks_full;
    EXPECT_EQ(engine.Devices().fallbacks_lost, 0);
    ASSERT_EQ(Bytes(*Compute(engine, request)), right) << "asked again";
  }
  EXPECT_GT(full, 20);
}

TEST(CudaEngine, AnotherDeviceReplacesALostOne) {
  const Engine engine = MakeEngine(Some({{.calls_until_lost = 1}, {}}));
  const v1::TopKRequest request = SomeRequest(3, 300, 20);
  const std::string right = RightBytes(request);
  int on_cuda = 0;
  for (int i = 0; i < 10; ++i) {
    const auto response = Compute(engine, request);
    ASSERT_EQ(Bytes(*response), right);
    on_cuda += response->execution().backend() == "cuda" ? 1 : 0;
  }
  EXPECT_EQ(on_cuda, 9);  // only the first request notices the loss
}

TEST(CudaStream, ALostDeviceEndsOnlyTheStream) {
  const v1::TopKRequest request = SomeRequest(3, 300, 20);
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  const Engine engine = MakeEngine(Some({{.calls_until_lost = 10}}));
  for (const bool first : {true, false}) {
    auto stream = StartStream(engine, header);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE((*stream)
                    ->Feed(std::as_bytes(std::span(request.tensor().data())))
                    .ok());
    const auto response = (*stream)->Finish();
    ASSERT_EQ(response.ok(), !first);
    if (first) {
      EXPECT_EQ(response.status().code, Code::kUnavailable);
      EXPECT_EQ(response.status().reason, "DEVICE_LOST");
    } else {
      EXPECT_EQ(Bytes(*response), RightBytes(request));
    }
  }
}

TEST(CudaStream, FoldsOnTheCpuIfTheDeviceIsFull) {
  const v1::TopKRequest request = SomeRequest(1, 300, 20);
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  // The device has memory for one stream.
  const Plan plan = ValidPlan(Ask(DType::kF32, {1, 300}, 1, 20));
  const int64_t bytes =
      cuda::DeviceBytes(plan, cuda::PositionsPerChunk(plan, 64));
  const Engine engine = MakeEngine(Some({{.memory_limit = bytes}}));
  auto one = StartStream(engine, header);
  auto other = StartStream(engine, header);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(engine.Devices().fallbacks_full, 1);
  for (auto* stream : {&one, &other}) {
    ASSERT_TRUE((**stream)
                    ->Feed(std::as_bytes(std::span(request.tensor().data())))
                    .ok());
    const auto response = (**stream)->Finish();
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->execution().backend(), stream == &one ? "cuda" : "cpu");
    EXPECT_EQ(Bytes(*response), RightBytes(request));
  }
}

TEST(CudaEngine, CancelledRequestsEnd) {
  Cancellation cancellation;
  const auto backend = HostCudaBackend(64);
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 300}, 1, 20));
  std::string values(static_cast<size_t>(plan.values.bytes), '\0');
  std::string indices(static_cast<size_t>(plan.indices.bytes), '\0');
  const Outputs outputs = {std::as_writable_bytes(std::span(values)),
                           std::as_writable_bytes(std::span(indices))};
  const auto prepared = backend->Prepare(plan, Arrival::kStream);
  const auto fold = *prepared->StartFold(outputs, &cancellation);
  const std::string data = SomeData(DType::kF32, 900, 1);
  fold->Feed(std::as_bytes(std::span(data)).first(1000));
  cancellation.Cancel();
  fold->Feed(std::as_bytes(std::span(data)).subspan(1000));
  EXPECT_TRUE(fold->Finish().status.ok());
}

}  // namespace
}  // namespace topk::testing
