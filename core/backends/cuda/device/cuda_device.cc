// A CUDA device with a memory pool and lanes. Reuses the resources of closed
// lanes.
//
// A lane has one stream for copies and one for computations. Each Memory has an
// event for each stream, so that a stream waits for the other stream only if
// both use the memory.
//
// The tests have the CTest label gpu.
#include "core/backends/cuda/device/cuda_device.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// The maximum number of open lanes. More lanes would not increase the
// throughput, and each lane needs pinned memory.
constexpr int kLanes = 16;

using Stream = std::unique_ptr<CUstream_st, FreeWith<cudaStreamDestroy>>;
// A CUDA event. Waiting for an event that was never recorded is a no-op.
using Event = std::unique_ptr<CUevent_st, FreeWith<cudaEventDestroy>>;

// Creates an event. Threads that wait for the event block instead of spinning.
cudaError_t Create(Event& event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(
      &created, cudaEventDisableTiming | cudaEventBlockingSync);
  event.reset(created);
  return error;
}

// The resources of a lane. The device reuses them, because pinned memory is
// slow to allocate.
struct LaneParts {
  struct Staging {
    std::unique_ptr<std::byte, FreeWith<cudaFreeHost>> data;
    Event copied;
  };
  Stream copying;
  Stream computing;
  std::array<Staging, 2> staging;

  cudaError_t Create() {
    cudaError_t error = cudaSuccess;
    for (Stream* stream : {&copying, &computing}) {
      cudaStream_t created = nullptr;
      error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
      if (error != cudaSuccess) return error;
      stream->reset(created);
    }
    for (Staging& each : staging) {
      void* data = nullptr;
      error = cudaHostAlloc(&data, kStagingBytes, cudaHostAllocDefault);
      if (error != cudaSuccess) return error;
      each.data.reset(static_cast<std::byte*>(data));
      error = cuda::Create(each.copied);
      if (error != cudaSuccess) return error;
    }
    return error;
  }
};

std::string TextOf(cudaError_t error) {
  return StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, const cudaDeviceProp& properties, int64_t memory_limit)
      : number_(number),
        name_(properties.name),
        uuid_(properties.uuid.bytes, sizeof(properties.uuid.bytes)),
        memory_limit_(memory_limit),
        architecture_(StrCat("sm_", properties.major, properties.minor)) {}
  ~CudaDevice() override {
    if (pool_ == nullptr || Use() != cudaSuccess) return;
    idle_.clear();
    cudaMemPoolDestroy(pool_);
  }

  Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) override;
  Result<std::unique_ptr<ImportedMemory>> Import(
      std::span<const std::byte, kIpcHandleBytes> handle,
      const std::string& field) override;
  const std::string& uuid() const override { return uuid_; }
  std::string_view architecture() const override { return architecture_; }
  bool lost() const override { return lost_.load(std::memory_order_relaxed); }
  int64_t memory_limit() const override { return memory_limit_; }
  DeviceState state() const override {
    DeviceState state{name_, 0, memory_limit_, lost(), number_, uuid_};
    const std::lock_guard lock(mutex_);
    uint64_t used = 0;
    if (!state.lost && pool_ != nullptr &&
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent,
                                &used) == cudaSuccess) {
      state.memory_bytes = static_cast<int64_t>(used);
    }
    return state;
  }

  cudaMemPool_t pool() const { return pool_; }
  // Makes this the current device of the calling thread.
  cudaError_t Use() const { return cudaSetDevice(number_); }

  // The error of a device that was lost earlier.
  Status Lost() const {
    return {Code::kUnavailable, "DEVICE_LOST", "",
            StrCat(name_, " failed earlier and is no longer used")};
  }

  // Returns the status for an error. Sets `lost_` if the error is sticky, i.e.
  // every later call of this process would fail. REQUIRES: not cudaSuccess.
  Status StatusOf(cudaError_t error) {
    cudaGetLastError();  // clears the error unless it is sticky
    if (error == cudaErrorMemoryAllocation) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               StrCat("no memory left on ", name_),
                               std::chrono::seconds(1));
    }
    if (cudaDeviceSynchronize() != cudaSuccess) {
      lost_.store(true, std::memory_order_relaxed);
    }
    return {Code::kUnavailable, "DEVICE_LOST", "",
            StrCat(name_, " failed: ", TextOf(error))};
  }

  // Gives a lane's memory and parts back to the device. `parts` is null if the
  // parts cannot be reused.
  void Release(int64_t bytes, std::unique_ptr<LaneParts> parts) {
    const std::lock_guard lock(mutex_);
    reserved_ -= bytes;
    --open_;
    if (parts != nullptr) idle_.push_back(std::move(parts));
  }

 private:
  // Creates the context and the memory pool. A context takes several hundred
  // MiB of device memory, so it is created only when there is work.
  cudaError_t Initialize() {
    // Make threads block, rather than spin, while they wait for the device.
    cudaError_t error = cudaInitDevice(number_, cudaDeviceScheduleBlockingSync,
                                       cudaInitDeviceFlagsAreValid);
    if (error == cudaSuccess) error = Use();
    if (error != cudaSuccess) return error;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = number_;
    properties.maxSize = static_cast<size_t>(memory_limit_);
    cudaMemPool_t pool = nullptr;
    error = cudaMemPoolCreate(&pool, &properties);
    if (error != cudaSuccess) return error;
    // Keep freed memory in the pool for later requests.
    auto keep = static_cast<uint64_t>(memory_limit_);
    error =
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error == cudaSuccess) {
      pool_ = pool;
    } else {
      cudaMemPoolDestroy(pool);
    }
    return error;
  }

  // Initializes the device on first use. REQUIRES: `mutex_` is locked.
  Status MakeReady() {
    if (pool_ != nullptr) return {};
    const cudaError_t error = Initialize();
    return error == cudaSuccess ? Status() : StatusOf(error);
  }

  // Reserves memory for a lane. Reuses the parts of a closed lane if possible.
  Status Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts) {
    const std::lock_guard lock(mutex_);
    if (Status s = MakeReady(); !s.ok()) return s;
    if (bytes > memory_limit_ - reserved_ || open_ == kLanes) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               StrCat(name_, " is busy with other requests"),
                               std::chrono::seconds(1));
    }
    reserved_ += bytes;
    ++open_;
    if (!idle_.empty()) {
      parts = std::move(idle_.back());
      idle_.pop_back();
    }
    return {};
  }

  const int number_;
  const std::string name_;
  const std::string uuid_;
  const int64_t memory_limit_;
  const std::string architecture_;
  std::atomic<bool> lost_ = false;
  // Guards the creation of the memory pool and the members below.
  mutable std::mutex mutex_;
  cudaMemPool_t pool_ = nullptr;
  int64_t reserved_ = 0;  // bytes that open lanes may use
  int open_ = 0;          // number of open lanes
  std::vector<std::unique_ptr<LaneParts>> idle_;  // of closed lanes, for reuse
};

class CudaImport final : public ImportedMemory {
 public:
  CudaImport(const CudaDevice& device, std::span<std::byte> bytes)
      : ImportedMemory(bytes), device_(device) {}
  ~CudaImport() override {
    if (device_.Use() == cudaSuccess) cudaIpcCloseMemHandle(bytes().data());
  }

 private:
  const CudaDevice& device_;
};

// Returns the number of bytes from `data` to the end of its allocation, or 0 if
// unknown. The runtime has no function for this, only the driver has.
size_t BytesAt(void* data) {
  constexpr unsigned kVersion = 3020;  // of the function's signature
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function,
                                       kVersion, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      function == nullptr) {
    return 0;
  }
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  const auto at = reinterpret_cast<CUdeviceptr>(data);
  if (reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(function)(
          &begin, &bytes, at) != CUDA_SUCCESS) {
    return 0;
  }
  return begin + bytes - at;
}

class CudaMemory final : public Memory {
 public:
  CudaMemory(void* data, const LaneParts& parts)
      : Memory(static_cast<std::byte*>(data)), parts_(parts) {}
  ~CudaMemory() override {
    if (data() == nullptr) return;
    cudaStreamWaitEvent(parts_.computing.get(), copied_.get(), 0);
    cudaFreeAsync(data(), parts_.computing.get());
  }
  cudaError_t Create() {
    const cudaError_t error = cuda::Create(copied_);
    return error == cudaSuccess ? cuda::Create(computed_) : error;
  }

  // Before...() makes a stream wait until the other stream has finished using
  // this memory. After...() records when a stream finishes using this memory.
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
  // The device must have reserved `bytes` for this lane.
  CudaLane(CudaDevice& device, int64_t bytes, std::unique_ptr<LaneParts> parts)
      : device_(device), bytes_(bytes), parts_(std::move(parts)) {}
  ~CudaLane() override {
    // Wait until all work of this lane is done. Until then, memory that this
    // lane freed is not available to other lanes.
    if (device_.Use() != cudaSuccess ||
        cudaStreamSynchronize(parts_->copying.get()) != cudaSuccess ||
        cudaStreamSynchronize(parts_->computing.get()) != cudaSuccess) {
      parts_ = nullptr;
    }
    device_.Release(bytes_, std::move(parts_));
  }

  std::unique_ptr<Memory> Allocate(size_t bytes) override {
    void* data = nullptr;
    if (Begins()) {
      Succeeds(cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                       device_.pool(),
                                       parts_->computing.get()));
    }
    auto memory = std::make_unique<CudaMemory>(data, *parts_);
    if (data != nullptr && Succeeds(memory->Create())) {
      // Make copies wait until the computing stream has allocated the memory.
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
    CopyStaged();
    if (!Begins()) return;
    const auto each = [&](cudaError_t (CudaMemory::*step)() const) {
      return std::ranges::all_of(uses, [&](Memory* memory) {
        return memory == nullptr ||
               Succeeds((static_cast<CudaMemory*>(memory)->*step)());
      });
    };
    if (each(&CudaMemory::BeforeComputing) &&
        Succeeds(static_cast<cudaError_t>(
            LaunchSelect(task, parts_->computing.get(), device_.pool())))) {
      each(&CudaMemory::AfterComputing);
    }
  }

  // Copies from the device to one staging buffer while emptying the other.
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

  void CopyIn(std::span<const std::byte> from, Memory& to, size_t at) override {
    CopyStaged();
    const auto& memory = static_cast<CudaMemory&>(to);
    if (Begins() && Succeeds(memory.BeforeCopy()) &&
        Succeeds(cudaMemcpyAsync(to.data() + at, from.data(), from.size(),
                                 cudaMemcpyDeviceToDevice,
                                 parts_->copying.get()))) {
      Succeeds(memory.AfterCopy());
    }
  }

  void CopyOut(Memory& from, std::span<std::byte> to) override {
    CopyStaged();
    const auto& memory = static_cast<CudaMemory&>(from);
    if (Begins() && Succeeds(memory.BeforeCopy()) &&
        Succeeds(cudaMemcpyAsync(to.data(), from.data(), to.size(),
                                 cudaMemcpyDeviceToDevice,
                                 parts_->copying.get())) &&
        Succeeds(memory.AfterCopy())) {
      Succeeds(cudaStreamSynchronize(parts_->copying.get()));
    }
  }

 private:
  // Returns whether a call succeeded, and sets the status if not.
  bool Succeeds(cudaError_t error) {
    if (error != cudaSuccess) status_ = device_.StatusOf(error);
    return error == cudaSuccess;
  }

  // Makes the device current. Returns false if this or an earlier call failed.
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

  CudaDevice& device_;
  const int64_t bytes_;
  std::unique_ptr<LaneParts> parts_;
  size_t next_staging_ = 0;
  // The number of bytes in the next staging buffer, and their destination on
  // the device.
  size_t staged_ = 0;
  CudaMemory* staged_for_ = nullptr;
  size_t staged_at_ = 0;
};

Result<std::unique_ptr<Lane>> CudaDevice::OpenLane(int64_t bytes) {
  if (lost()) return Lost();
  std::unique_ptr<LaneParts> parts;
  if (Status s = Reserve(bytes, parts); !s.ok()) return s;
  try {
    if (parts == nullptr) {
      parts = std::make_unique<LaneParts>();
      cudaError_t error = Use();
      if (error == cudaSuccess) error = parts->Create();
      if (error != cudaSuccess) {
        Release(bytes, nullptr);
        return StatusOf(error);
      }
    }
    return std::unique_ptr<Lane>(
        std::make_unique<CudaLane>(*this, bytes, std::move(parts)));
  } catch (...) {  // std::bad_alloc
    Release(bytes, nullptr);
    throw;
  }
}

Result<std::unique_ptr<ImportedMemory>> CudaDevice::Import(
    std::span<const std::byte, kIpcHandleBytes> handle,
    const std::string& field) {
  if (lost()) return Lost();
  {
    const std::lock_guard lock(mutex_);
    if (Status s = MakeReady(); !s.ok()) return s;
  }
  cudaIpcMemHandle_t exported{};
  static_assert(sizeof(exported) == kIpcHandleBytes);
  std::memcpy(&exported, handle.data(), handle.size());
  cudaError_t error = Use();
  if (error != cudaSuccess) return StatusOf(error);
  // CUDA counts how often this process has opened the same memory.
  void* data = nullptr;
  error = cudaIpcOpenMemHandle(&data, exported, cudaIpcMemLazyEnablePeerAccess);
  if (error == cudaErrorMemoryAllocation) return StatusOf(error);
  if (error != cudaSuccess) {
    cudaGetLastError();  // otherwise, a later call would return the error
    return InvalidArgument(
        "CUDA_MEMORY_HANDLE", field,
        StrCat("the handle cannot be opened on ", name_, ": ", TextOf(error),
               "; another process must have exported memory that it has not "
               "freed"));
  }
  return std::unique_ptr<ImportedMemory>(std::make_unique<CudaImport>(
      *this, std::span(static_cast<std::byte*>(data), BytesAt(data))));
}

// Returns why there is no device. Checks the driver's version, because
// cudaGetDeviceCount() does not distinguish a missing driver from an old one.
std::string WhyNoDevice(cudaError_t error) {
  const auto version = [](int number) {
    return StrCat(number / 1000, ".", number % 1000 / 10);
  };
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "this machine has no NVIDIA driver";
  if (error == cudaErrorInsufficientDriver) {
    return StrCat("the NVIDIA driver is too old: it supports CUDA ",
                  version(driver), ", and this program needs ",
                  version(CUDART_VERSION));
  }
  if (error != cudaSuccess) {
    return StrCat("this machine has no CUDA device: ", TextOf(error));
  }
  return "this machine has no CUDA device of compute capability 8.0 or later";
}

}  // namespace

Status CheckDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (!OpenDevices(0).empty()) return {};
  cudaGetLastError();
  return InvalidArgument("NO_CUDA_DEVICE", "backend", WhyNoDevice(error));
}

std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes) {
  std::vector<std::unique_ptr<Device>> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return devices;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess ||
        properties.major < 8 || properties.memoryPoolsSupported == 0) {
      continue;
    }
    const auto half = static_cast<int64_t>(properties.totalGlobalMem / 2);
    devices.push_back(std::make_unique<CudaDevice>(
        number, properties, memory_bytes > 0 ? memory_bytes : half));
  }
  return devices;
}

}  // namespace topk::cuda
