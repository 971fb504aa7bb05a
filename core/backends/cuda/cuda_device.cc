// A device by the CUDA runtime: two streams for each lane, one that copies and
// one that computes, and for each memory two events, so that what uses it stays
// in order while the rest goes on side by side.
//
// Tests: the label gpu.
#include "core/backends/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/backends/cuda/launch.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// Of each of the two buffers that a lane copies through. Copies from memory
// that is not pinned are slow, and wait.
constexpr size_t kStagingBytes = size_t{4} << 20;

// Lanes that are kept for the next caller; more have no use of one device.
constexpr size_t kIdleLanes = 8;

std::string TextOf(cudaError_t error) {
  return Cat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

// An event, which knows nothing yet.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaError_t Create() {
    return cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What a lane has of a device for as long as the process runs.
struct LaneParts {
  struct Staging {
    void* data = nullptr;
    Event copied;
  };
  cudaStream_t copying = nullptr;
  cudaStream_t computing = nullptr;
  std::array<Staging, 2> staging;

  LaneParts() = default;
  LaneParts(const LaneParts&) = delete;
  LaneParts& operator=(const LaneParts&) = delete;
  ~LaneParts() {
    for (const Staging& each : staging) {
      if (each.data != nullptr) cudaFreeHost(each.data);
    }
    if (copying != nullptr) cudaStreamDestroy(copying);
    if (computing != nullptr) cudaStreamDestroy(computing);
  }

  cudaError_t Create() {
    cudaError_t error =
        cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking);
    if (error == cudaSuccess) {
      error = cudaStreamCreateWithFlags(&computing, cudaStreamNonBlocking);
    }
    for (Staging& each : staging) {
      if (error == cudaSuccess) {
        error = cudaHostAlloc(&each.data, kStagingBytes, cudaHostAllocDefault);
      }
      if (error == cudaSuccess) error = each.copied.Create();
    }
    return error;
  }
};

class CudaDevice final : public Device {
 public:
  // Null where the device cannot be used.
  static std::unique_ptr<CudaDevice> Open(int number, int64_t memory_bytes);
  ~CudaDevice() override;

  Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) override;
  std::string_view architecture() const override { return architecture_; }
  bool lost() const override { return lost_.load(std::memory_order_relaxed); }
  int64_t memory_limit() const override { return memory_limit_; }
  DeviceState state() const override;

  // Makes this thread's calls go to the device.
  cudaError_t Use() const { return cudaSetDevice(number_); }
  cudaMemPool_t pool() const { return pool_; }

  // Returns an error as a status. All but a lack of memory ends the device:
  // the runtime says the same to every later call.
  Status Check(cudaError_t error) {
    if (error == cudaSuccess) return {};
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is remembered otherwise
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               Cat("no memory left on ", name_),
                               std::chrono::seconds(1));
    }
    lost_.store(true, std::memory_order_relaxed);
    return {Code::kUnavailable, "DEVICE_LOST", "",
            Cat(name_, " failed: ", TextOf(error))};
  }

  void CloseLane(std::unique_ptr<LaneParts> parts, int64_t bytes);

 private:
  CudaDevice(int number, int64_t memory_limit, std::string name,
             std::string architecture)
      : number_(number),
        memory_limit_(memory_limit),
        name_(std::move(name)),
        architecture_(std::move(architecture)) {}

  const int number_;
  const int64_t memory_limit_;
  const std::string name_;
  const std::string architecture_;
  cudaMemPool_t pool_ = nullptr;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  // Guarded by it: what lanes may take, and lanes that nobody uses.
  int64_t reserved_ = 0;
  std::vector<std::unique_ptr<LaneParts>> idle_;
};

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
  CudaLane(CudaDevice& device, std::unique_ptr<LaneParts> parts, int64_t bytes)
      : device_(device), parts_(std::move(parts)), bytes_(bytes) {}
  ~CudaLane() override { device_.CloseLane(std::move(parts_), bytes_); }

  Result<std::unique_ptr<Memory>> Allocate(size_t bytes) override {
    void* data = nullptr;
    cudaError_t error = device_.Use();
    if (error == cudaSuccess) {
      error = cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                      device_.pool(), parts_->computing);
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
          LaunchSelect(task, parts_->computing, device_.pool()));
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

  CudaDevice& device_;
  std::unique_ptr<LaneParts> parts_;
  const int64_t bytes_;
  size_t next_staging_ = 0;
};

std::unique_ptr<CudaDevice> CudaDevice::Open(int number, int64_t memory_bytes) {
  cudaDeviceProp properties{};
  int pools = 0;
  size_t free = 0;
  size_t total = 0;
  if (cudaSetDevice(number) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, number) != cudaSuccess ||
      cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, number) !=
          cudaSuccess ||
      pools == 0 || cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  const int64_t limit =
      memory_bytes > 0 ? memory_bytes : static_cast<int64_t>(total / 2);
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(number, limit, properties.name,
                     Cat("sm_", properties.major, properties.minor)));
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = number;
  if (cudaMemPoolCreate(&device->pool_, &props) != cudaSuccess) return nullptr;
  // What was freed is kept for the next request, as far as the limit goes.
  auto keep = static_cast<uint64_t>(limit);
  if (cudaMemPoolSetAttribute(device->pool_, cudaMemPoolAttrReleaseThreshold,
                              &keep) != cudaSuccess) {
    return nullptr;
  }
  return device;
}

CudaDevice::~CudaDevice() {
  if (Use() != cudaSuccess) return;
  idle_.clear();
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

Result<std::unique_ptr<Lane>> CudaDevice::OpenLane(int64_t bytes) {
  if (lost()) {
    return Status{Code::kUnavailable, "DEVICE_LOST", "",
                  Cat(name_, " failed before")};
  }
  std::unique_ptr<LaneParts> parts;
  {
    const std::lock_guard lock(mutex_);
    if (bytes > memory_limit_ - reserved_) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               Cat("the memory of ", name_, " is taken"),
                               std::chrono::seconds(1));
    }
    reserved_ += bytes;
    if (!idle_.empty()) {
      parts = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (parts == nullptr) {
    parts = std::make_unique<LaneParts>();
    cudaError_t error = Use();
    if (error == cudaSuccess) error = parts->Create();
    if (Status s = Check(error); !s.ok()) {
      const std::lock_guard lock(mutex_);
      reserved_ -= bytes;
      return s;
    }
  }
  return std::unique_ptr<Lane>(
      std::make_unique<CudaLane>(*this, std::move(parts), bytes));
}

void CudaDevice::CloseLane(std::unique_ptr<LaneParts> parts, int64_t bytes) {
  // What it freed is not there for others before its work has ended.
  const bool whole = Use() == cudaSuccess &&
                     cudaStreamSynchronize(parts->copying) == cudaSuccess &&
                     cudaStreamSynchronize(parts->computing) == cudaSuccess;
  const std::lock_guard lock(mutex_);
  reserved_ -= bytes;
  if (whole && idle_.size() < kIdleLanes) idle_.push_back(std::move(parts));
}

DeviceState CudaDevice::state() const {
  DeviceState state{name_, 0, memory_limit_, lost()};
  uint64_t used = 0;
  if (!state.lost && Use() == cudaSuccess &&
      cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent,
                              &used) == cudaSuccess) {
    state.memory_bytes = static_cast<int64_t>(used);
  }
  return state;
}

}  // namespace

Status CheckDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  return InvalidArgument(
      "NO_CUDA_DEVICE", "backend",
      Cat("this machine has no CUDA device: ",
          error == cudaSuccess ? "none is visible" : TextOf(error)));
}

std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes) {
  std::vector<std::unique_ptr<Device>> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return devices;
  for (int number = 0; number < count; ++number) {
    std::unique_ptr<CudaDevice> device = CudaDevice::Open(number, memory_bytes);
    if (device != nullptr) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace topk::cuda
