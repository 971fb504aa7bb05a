// A lane has one stream for copies and one for computations. Each Memory has
// two events, so that a stream waits for the other only if both use that
// memory.
//
// Tests: the label gpu.
#include "core/backends/cuda/device/cuda_lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/text.h"

namespace topk::cuda {
namespace {

class CudaMemory final : public Memory {
 public:
  CudaMemory(void* data, size_t size, const LaneParts& parts)
      : Memory(static_cast<std::byte*>(data), size), parts_(parts) {}
  ~CudaMemory() override {
    if (data() == nullptr) return;
    cudaStreamWaitEvent(parts_.computing.get(), copied_.get(), 0);
    cudaFreeAsync(data(), parts_.computing.get());
  }
  cudaError_t Create() {
    const cudaError_t error = cuda::Create(copied_);
    return error == cudaSuccess ? cuda::Create(computed_) : error;
  }

  // Before...() makes a stream wait for the other stream's work on this memory.
  // After...() marks the end of the stream's own work.
  cudaError_t BeforeCopy() const {
    return cudaStreamWaitEvent(parts_.copying.get(), computed_.get(), 0);
  }
  cudaError_t AfterCopy() const {
    return cudaEventRecord(copied_.get(), parts_.copying.get());
  }
  cudaError_t BeforeComputing() const {
    return cudaStreamWaitEvent(parts_.computing.get(), copied_.get(), 0);
  }
  cudaError_t AfterComputing() const {
    return cudaEventRecord(computed_.get(), parts_.computing.get());
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
    // Wait: memory freed on the lane is not available to others until its work
    // ends.
    if (device_.Use() != cudaSuccess ||
        cudaStreamSynchronize(parts_->copying.get()) != cudaSuccess ||
        cudaStreamSynchronize(parts_->computing.get()) != cudaSuccess) {
      parts_ = nullptr;
    }
    give_back_(std::move(parts_));
  }

  std::unique_ptr<Memory> Allocate(size_t bytes) override {
    void* data = nullptr;
    if (Begins()) {
      Succeeds(cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                       device_.pool, parts_->computing.get()));
    }
    auto memory = std::make_unique<CudaMemory>(data, bytes, *parts_);
    if (data != nullptr && Succeeds(memory->Create())) {
      // The copying stream must wait for the allocation.
      Succeeds(memory->AfterComputing());
    }
    return memory;
  }

  // Gathers small uploads in the staging buffer, so that each copy is large.
  void Upload(std::span<const std::byte> from, Memory& to, size_t at) override {
    if (&to != staged_for_ || at != staged_at_ + staged_) CopyStaged();
    while (!from.empty() && Begins()) {
      LaneParts::Staging& staging = parts_->staging[next_staging_];
      if (staged_ == 0) {
        if (!Succeeds(cudaEventSynchronize(staging.copied.get()))) return;
        staged_for_ = static_cast<CudaMemory*>(&to);
        staged_at_ = at;
      }
      const size_t size = std::min(from.size(), kStagingBytes - staged_);
      std::memcpy(staging.data.get() + staged_, from.data(), size);
      staged_ += size;
      at += size;
      from = from.subspan(size);
      if (staged_ == kStagingBytes) CopyStaged();
    }
  }

  void Select(const SelectTask& task,
              std::initializer_list<Memory*> uses) override {
    Compute(uses, [&] {
      return LaunchSelect(task, parts_->computing.get(), device_.pool);
    });
  }

  void Emit(const EmitTask& task,
            std::initializer_list<Memory*> uses) override {
    Compute(uses, [&] { return LaunchEmit(task, parts_->computing.get()); });
  }

  // Copies to one staging buffer while emptying the other.
  void Download(Memory& memory, std::span<std::byte> to) override {
    CopyStaged();
    auto& from = static_cast<CudaMemory&>(memory);
    if (!Begins() || !Succeeds(from.BeforeCopy())) return;
    std::array<std::span<std::byte>, 2> arriving;
    for (size_t at = 0;;) {
      const size_t number = next_staging_;
      next_staging_ ^= 1;
      LaneParts::Staging& staging = parts_->staging[number];
      if (!Succeeds(cudaEventSynchronize(staging.copied.get()))) return;
      std::span<std::byte>& arrived = arriving[number];
      if (!arrived.empty()) {
        std::memcpy(arrived.data(), staging.data.get(), arrived.size());
        arrived = {};
      }
      if (at < to.size()) {
        arrived = to.subspan(at, std::min(to.size() - at, kStagingBytes));
        if (!Succeeds(cudaMemcpyAsync(staging.data.get(), from.data() + at,
                                      arrived.size(), cudaMemcpyDeviceToHost,
                                      parts_->copying.get())) ||
            !Succeeds(
                cudaEventRecord(staging.copied.get(), parts_->copying.get()))) {
          return;
        }
        at += arrived.size();
      } else if (arriving[number ^ 1].empty()) {
        break;
      }
    }
    Succeeds(from.AfterCopy());
  }

 private:
  // Returns whether a call succeeded, and sets the status if not.
  bool Succeeds(cudaError_t error) {
    if (error != cudaSuccess) status_ = device_.StatusOf(error);
    return error == cudaSuccess;
  }

  // Returns whether an operation may start: no earlier operation failed.
  bool Begins() { return status_.ok() && Succeeds(device_.Use()); }

  // Starts the copy of the staged bytes to the device.
  void CopyStaged() {
    if (staged_ == 0 || !Begins()) return;
    LaneParts::Staging& staging = parts_->staging[next_staging_];
    if (Succeeds(staged_for_->BeforeCopy()) &&
        Succeeds(cudaMemcpyAsync(
            staged_for_->data() + staged_at_, staging.data.get(), staged_,
            cudaMemcpyHostToDevice, parts_->copying.get())) &&
        Succeeds(
            cudaEventRecord(staging.copied.get(), parts_->copying.get()))) {
      Succeeds(staged_for_->AfterCopy());
    }
    staged_ = 0;
    next_staging_ ^= 1;
  }

  // Launches a task, with the waits before it and the events after it.
  template <class Launch>
  void Compute(std::initializer_list<Memory*> uses, const Launch& launch) {
    CopyStaged();
    if (!Begins()) return;
    const auto each = [&](cudaError_t (CudaMemory::*step)() const) {
      return std::ranges::all_of(uses, [&](Memory* memory) {
        return memory == nullptr ||
               Succeeds((static_cast<CudaMemory*>(memory)->*step)());
      });
    };
    if (each(&CudaMemory::BeforeComputing) &&
        Succeeds(static_cast<cudaError_t>(launch()))) {
      each(&CudaMemory::AfterComputing);
    }
  }

  DeviceHandle& device_;
  std::unique_ptr<LaneParts> parts_;
  const std::function<void(std::unique_ptr<LaneParts>)> give_back_;
  size_t next_staging_ = 0;
  // The number of bytes in the next staging buffer, and their destination on
  // the device.
  size_t staged_ = 0;
  CudaMemory* staged_for_ = nullptr;
  size_t staged_at_ = 0;
};

}  // namespace

cudaError_t LaneParts::Create() {
  cudaError_t error = cudaSuccess;
  for (Stream* stream : {&copying, &computing}) {
    cudaStream_t created = nullptr;
    if (error == cudaSuccess) {
      error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
    }
    stream->reset(created);
  }
  for (Staging& each : staging) {
    void* data = nullptr;
    if (error == cudaSuccess) {
      error = cudaHostAlloc(&data, kStagingBytes, cudaHostAllocDefault);
    }
    each.data.reset(static_cast<std::byte*>(data));
    if (error == cudaSuccess) error = cuda::Create(each.copied);
  }
  return error;
}

std::string TextOf(cudaError_t error) {
  return StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

Status DeviceHandle::StatusOf(cudaError_t error) {
  cudaGetLastError();  // clears the error unless it is sticky
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("DEVICE_MEMORY", "server",
                             StrCat("no memory left on ", name),
                             std::chrono::seconds(1));
  }
  if (cudaDeviceSynchronize() != cudaSuccess) {
    lost.store(true, std::memory_order_relaxed);
  }
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
