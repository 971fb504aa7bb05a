// Measures the CUDA backend. Prints a line of JSON for each workload and mode:
//
//   resident    the tensor and the result stay on the device; timed with CUDA
//               events around the tasks, with a cold L2 cache
//   end_to_end  from host memory to host memory; wall-clock time
//   cpu         like end_to_end, on all threads of the CPU
//
// All results are compared with the CPU's. Times are the minimum of several
// runs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/tasks.h"
#include "core/common/process_limits.h"
#include "tests/bench/workload.h"
#include "tests/support/compute.h"

namespace topk::bench {
namespace {

// Larger than the L2 cache of any device.
constexpr size_t kFlushBytes = size_t{256} << 20;
constexpr int kRuns = 30;

void Check(int error, const char* what) {
  if (error == 0) return;
  throw std::runtime_error(std::string(what) + ": " +
                           cudaGetErrorString(static_cast<cudaError_t>(error)));
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) {
    Check(cudaMalloc(&data_, std::max<size_t>(bytes, 1)), "cudaMalloc");
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Returns the minimum time in microseconds of work on the default stream, with
// a cold cache.
double LeastOnDevice(const std::function<void()>& work) {
  static const DeviceBuffer flush(kFlushBytes);
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  Check(cudaEventCreate(&start), "cudaEventCreate");
  Check(cudaEventCreate(&end), "cudaEventCreate");
  float least = 1e30F;
  for (int i = 0; i < kRuns; ++i) {
    Check(cudaMemsetAsync(flush.get(), i, kFlushBytes, nullptr), "flush");
    Check(cudaEventRecord(start, nullptr), "cudaEventRecord");
    work();
    Check(cudaEventRecord(end, nullptr), "cudaEventRecord");
    Check(cudaEventSynchronize(end), "the work");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, start, end), "elapsed time");
    least = std::min(least, milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return static_cast<double>(least) * 1000;
}

double LeastOnHost(const std::function<void()>& work) {
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < kRuns / 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min<std::chrono::nanoseconds>(
        least, std::chrono::steady_clock::now() - start);
  }
  return static_cast<double>(least.count()) / 1000;
}

// Runs the whole tensor as one task.
double Resident(const Plan& plan, const DeviceBuffer& elements,
                Answer& answer) {
  const DeviceBuffer values(answer.values.size());
  const DeviceBuffer indices(answer.indices.size());
  cuda::SelectTask select;
  select.rule =
      cuda::RuleOf(InfoOf(plan.dtype), plan.direction == Direction::kLargest);
  select.elements = elements.get();
  select.batches = plan.outer;
  select.positions = plan.n;
  select.inner = plan.inner;
  select.k = plan.k;
  select.values = values.get();
  select.indices = indices.get();
  const double least = LeastOnDevice(
      [&] { Check(cuda::LaunchSelect(select, nullptr), "LaunchSelect"); });
  Check(cudaMemcpy(answer.values.data(), values.get(), answer.values.size(),
                   cudaMemcpyDeviceToHost),
        "values");
  Check(cudaMemcpy(answer.indices.data(), indices.get(), answer.indices.size(),
                   cudaMemcpyDeviceToHost),
        "indices");
  return least;
}

void Say(const Workload& workload, const char* way, double microseconds,
         const nlohmann::json& more) {
  nlohmann::json line = {
      {"workload", workload.name}, {"way", way}, {"least_us", microseconds}};
  line.update(more);
  std::cout << line << std::endl;
}

int Main(const std::string& path) {
  std::vector<std::string> errors;
  auto devices = cuda::OpenDevices(0, AvailableProcessors(), errors);
  if (devices.empty()) {
    std::cerr << "gpu_bench: " << errors.front() << "\n";
    return 1;
  }
  const nlohmann::json device = {{"device", devices[0]->state().name}};
  const auto gpu = MakeCudaBackend(std::move(devices));
  const auto cpu = MakeCpuBackend(AvailableProcessors(),
                                  cpu::SupportedInstructionSets().front());
  int wrong = 0;
  for (const Workload& workload : ReadWorkloads(path)) {
    std::cerr << "== " << workload.name << "\n";
    const Plan plan = workload.plan();
    const std::vector<std::byte> data = MakeData(workload, 1);
    const auto compare = [&](const Answer& right, const Answer& ours,
                             const char* way) {
      if (right == ours) return;
      std::cerr << workload.name << " " << way << ": a wrong answer\n";
      ++wrong;
    };
    const auto on_cpu = cpu->Prepare(plan, Arrival::kWhole);
    Answer right(plan);
    Execution execution;
    double least = LeastOnHost(
        [&] { execution = testing::RunWhole(*on_cpu, data, right.outputs()); });
    Say(workload, "cpu", least, {{"kernel", execution.kernel}});
    Answer ours(plan);
    nlohmann::json more = device;
    if (const auto on_gpu = gpu->Prepare(plan, Arrival::kWhole)) {
      least = LeastOnHost([&] {
        execution = testing::RunWhole(*on_gpu, data, ours.outputs());
      });
      more["kernel"] = execution.kernel;
      Say(workload, "end_to_end", least, more);
      compare(right, ours, "end_to_end");
    }
    const DeviceBuffer elements(data.size());
    Check(cudaMemcpy(elements.get(), data.data(), data.size(),
                     cudaMemcpyHostToDevice),
          "the tensor");
    ours = Answer(plan);
    Say(workload, "resident", Resident(plan, elements, ours), more);
    compare(right, ours, "resident");
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace topk::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: gpu_bench WORKLOADS.cases\n";
    return 2;
  }
  try {
    return topk::bench::Main(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: " << error.what() << "\n";
    return 1;
  }
}
