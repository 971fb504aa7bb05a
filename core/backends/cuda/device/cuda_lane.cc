// For each lane one stream that copies and one that computes, and for each
// memory two events, so that what uses it stays in order while the rest goes on
// side by side.
//
// Tests: the label gpu.
#include "core/backends/cuda/device/cuda_lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/backends/cuda/launch.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

class CudaMemory final : public Memory {
 public:
  CudaMemory(void* data, size_t size, const LaneParts& parts)
      : Memory(static_cast<std::byte*>(data), size), parts_(parts) {}
  ~CudaMemory() override {
    cudaStreamWaitEvent(parts_.computing, copied_.get(), 0);
    cudaFreeAsync(data(), parts_.computing);
  }
  cudaError_t Create() {
    const cudaError_t error = copied_.Create();
    return error == cudaSuccess ? computed_.Create() : error;
  }

  // Has a stream wait for what the other does with this memory, before; marks
  // that it has done its own, after. An event that was never recorded is past.
  cudaError_t BeforeCopy() const {
    return cudaStreamWaitEvent(parts_.copying, computed_.get(), 0);
  }
  cudaError_t AfterCopy() const {
    return cudaEventRecord(copied_.get(), parts_.copying);
  }
  cudaError_t BeforeComputing() const {
    return cudaStreamWaitEvent(parts_.computing, copied_.get(), 0);
  }
  cudaError_t AfterComputing() const {
    return cudaEventRecord(computed_.get(), parts_.computing);
  }

 private:
  const LaneParts& parts_;
  Event copied_;
  Event computed_;
};

class CudaLane final : public Lane {
 public:
  CudaLane(DeviceHandle& device, std::unique_ptr<LaneParts> parts,
           std::function<void(std::unique_ptr<LaneParts>)> give_back)
      : device_(device),
        parts_(std::move(parts)),
        give_back_(std::move(give_back)) {}
  ~CudaLane() override {
    // Memory freed on the lane is not available to others until its work ends.
    if (device_.Use() != cudaSuccess ||
        cudaStreamSynchronize(parts_->copying) != cudaSuccess ||
        cudaStreamSynchronize(parts_->computing) != cudaSuccess) {
      parts_ = nullptr;
    }
    give_back_(std::move(parts_));
  }

  Result<std::unique_ptr<Memory>> Allocate(size_t bytes) override {
    void* data = nullptr;
    cudaError_t error = device_.Use();
    if (error == cudaSuccess) {
      error = cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                      device_.pool, parts_->computing);
    }
    if (Status s = device_.Check(error); !s.ok()) return s;
    auto memory = std::make_unique<CudaMemory>(data, bytes, *parts_);
    error = memory->Create();
    // The copying stream must not use it before it is there.
    if (error == cudaSuccess) error = memory->AfterComputing();
    if (Status s = device_.Check(error); !s.ok()) return s;
    return std::unique_ptr<Memory>(std::move(memory));
  }

  Status Upload(std::span<const std::byte> from, Memory& to,
                size_t at) override {
    return device_.Check(CopyIn(from, static_cast<CudaMemory&>(to), at));
  }

  Status Select(const SelectTask& task,
                std::initializer_list<Memory*> uses) override {
    return device_.Check(Compute(uses, [&] {
      return static_cast<cudaError_t>(
          LaunchSelect(task, parts_->computing, device_.pool));
    }));
  }

  Status Emit(const EmitTask& task,
              std::initializer_list<Memory*> uses) override {
    return device_.Check(Compute(uses, [&] {
      return static_cast<cudaError_t>(LaunchEmit(task, parts_->computing));
    }));
  }

  Status Download(Memory& from, std::span<std::byte> to) override {
    return device_.Check(CopyOut(static_cast<CudaMemory&>(from), to));
  }

 private:
  cudaError_t CopyIn(std::span<const std::byte> from, CudaMemory& to,
                     size_t at) {
    cudaError_t error = device_.Use();
    if (error == cudaSuccess) error = to.BeforeCopy();
    while (error == cudaSuccess && !from.empty()) {
      LaneParts::Staging& staging = parts_->staging[next_staging_];
      next_staging_ ^= 1;
      const size_t size = std::min(from.size(), kStagingBytes);
      error = cudaEventSynchronize(staging.copied.get());
      if (error != cudaSuccess) break;
      std::memcpy(staging.data, from.data(), size);
      error = cudaMemcpyAsync(to.data() + at, staging.data, size,
                              cudaMemcpyHostToDevice, parts_->copying);
      if (error == cudaSuccess) {
        error = cudaEventRecord(staging.copied.get(), parts_->copying);
      }
      from = from.subspan(size);
      at += size;
    }
    return error == cudaSuccess ? to.AfterCopy() : error;
  }

  // Through the same buffers: while one arrives the other is emptied.
  cudaError_t CopyOut(CudaMemory& from, std::span<std::byte> to) {
    cudaError_t error = device_.Use();
    if (error == cudaSuccess) error = from.BeforeCopy();
    std::array<std::span<std::byte>, 2> arriving;
    size_t at = 0;
    while (error == cudaSuccess) {
      const size_t number = next_staging_;
      next_staging_ ^= 1;
      LaneParts::Staging& staging = parts_->staging[number];
      error = cudaEventSynchronize(staging.copied.get());
      if (error != cudaSuccess) break;
      std::span<std::byte>& arrived = arriving[number];
      if (!arrived.empty()) {
        std::memcpy(arrived.data(), staging.data, arrived.size());
        arrived = {};
      }
      if (at < to.size()) {
        arrived = to.subspan(at, std::min(to.size() - at, kStagingBytes));
        error = cudaMemcpyAsync(staging.data, from.data() + at, arrived.size(),
                                cudaMemcpyDeviceToHost, parts_->copying);
        if (error == cudaSuccess) {
          error = cudaEventRecord(staging.copied.get(), parts_->copying);
        }
        at += arrived.size();
      } else if (arriving[number ^ 1].empty()) {
        break;
      }
    }
    return error == cudaSuccess ? from.AfterCopy() : error;
  }

  template <class Launch>
  cudaError_t Compute(std::initializer_list<Memory*> uses,
                      const Launch& launch) {
    cudaError_t error = device_.Use();
    for (Memory* memory : uses) {
      if (memory == nullptr || error != cudaSuccess) continue;
      error = static_cast<CudaMemory*>(memory)->BeforeComputing();
    }
    if (error == cudaSuccess) error = launch();
    for (Memory* memory : uses) {
      if (memory == nullptr || error != cudaSuccess) continue;
      error = static_cast<CudaMemory*>(memory)->AfterComputing();
    }
    return error;
  }

  DeviceHandle& device_;
  std::unique_ptr<LaneParts> parts_;
  const std::function<void(std::unique_ptr<LaneParts>)> give_back_;
  size_t next_staging_ = 0;
};

}  // namespace

std::string TextOf(cudaError_t error) {
  return StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

Status DeviceHandle::Check(cudaError_t error) {
  if (error == cudaSuccess) return {};
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is remembered otherwise
    return ResourceExhausted("DEVICE_MEMORY", "server",
                             StrCat("no memory left on ", name),
                             std::chrono::seconds(1));
  }
  lost.store(true, std::memory_order_relaxed);
  return {Code::kUnavailable, "DEVICE_LOST", "",
          StrCat(name, " failed: ", TextOf(error))};
}

std::unique_ptr<Lane> MakeLane(
    DeviceHandle& device, std::unique_ptr<LaneParts> parts,
    std::function<void(std::unique_ptr<LaneParts>)> give_back) {
  return std::make_unique<CudaLane>(device, std::move(parts),
                                    std::move(give_back));
}

}  // namespace topk::cuda
