// A device of the CUDA runtime: its memory pool, and the lanes' resources,
// which are reused.
//
// Tests: the label gpu.
#include "core/backends/cuda/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "core/backends/cuda/device/cuda_lane.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// The maximum number of open lanes. More lanes do not use the device better,
// and each holds pinned memory.
constexpr int kLanes = 16;

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, const cudaDeviceProp& properties, int64_t memory_limit)
      : memory_limit_(memory_limit),
        architecture_(StrCat("sm_", properties.major, properties.minor)) {
    handle_.number = number;
    handle_.name = properties.name;
  }
  ~CudaDevice() override;

  Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) override;
  std::string_view architecture() const override { return architecture_; }
  bool lost() const override {
    return handle_.lost.load(std::memory_order_relaxed);
  }
  int64_t memory_limit() const override { return memory_limit_; }
  DeviceState state() const override;

 private:
  // Creates the context and the memory pool. A context takes several hundred
  // MiB of device memory, so it is created only when there is work.
  cudaError_t Initialize();
  // Reserves memory for a lane, and takes parts from `idle_` if there are any.
  Status Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts);
  // Gives back the memory and the parts. `parts` is null if they cannot be
  // reused.
  void Release(int64_t bytes, std::unique_ptr<LaneParts> parts);

  const int64_t memory_limit_;
  const std::string architecture_;
  DeviceHandle handle_;
  // Guards the creation of the memory pool and the members below.
  mutable std::mutex mutex_;
  int64_t reserved_ = 0;  // bytes that open lanes may use
  int open_ = 0;          // number of open lanes
  std::vector<std::unique_ptr<LaneParts>> idle_;  // of closed lanes, for reuse
};

CudaDevice::~CudaDevice() {
  if (handle_.pool == nullptr || handle_.Use() != cudaSuccess) return;
  idle_.clear();
  cudaMemPoolDestroy(handle_.pool);
}

cudaError_t CudaDevice::Initialize() {
  // Threads that wait for the device must not spin.
  cudaError_t error =
      cudaInitDevice(handle_.number, cudaDeviceScheduleBlockingSync,
                     cudaInitDeviceFlagsAreValid);
  if (error == cudaSuccess) error = handle_.Use();
  if (error != cudaSuccess) return error;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = handle_.number;
  properties.maxSize = static_cast<size_t>(memory_limit_);
  cudaMemPool_t pool = nullptr;
  error = cudaMemPoolCreate(&pool, &properties);
  if (error != cudaSuccess) return error;
  // Keep freed memory for later requests.
  auto keep = static_cast<uint64_t>(memory_limit_);
  error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
  if (error == cudaSuccess) {
    handle_.pool = pool;
  } else {
    cudaMemPoolDestroy(pool);
  }
  return error;
}

Status CudaDevice::Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts) {
  const std::lock_guard lock(mutex_);
  if (handle_.pool == nullptr) {
    const cudaError_t error = Initialize();
    if (error != cudaSuccess) return handle_.StatusOf(error);
  }
  if (bytes > memory_limit_ - reserved_ || open_ == kLanes) {
    return ResourceExhausted(
        "DEVICE_MEMORY", "server",
        StrCat("there is no room on ", handle_.name, " now"),
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

void CudaDevice::Release(int64_t bytes, std::unique_ptr<LaneParts> parts) {
  const std::lock_guard lock(mutex_);
  reserved_ -= bytes;
  --open_;
  if (parts != nullptr) idle_.push_back(std::move(parts));
}

Result<std::unique_ptr<Lane>> CudaDevice::OpenLane(int64_t bytes) {
  if (lost()) {
    return Status{Code::kUnavailable, "DEVICE_LOST", "",
                  StrCat(handle_.name, " failed before")};
  }
  std::unique_ptr<LaneParts> parts;
  if (Status s = Reserve(bytes, parts); !s.ok()) return s;
  try {
    if (parts == nullptr) {
      parts = std::make_unique<LaneParts>();
      cudaError_t error = handle_.Use();
      if (error == cudaSuccess) error = parts->Create();
      if (error != cudaSuccess) {
        Release(bytes, nullptr);
        return handle_.StatusOf(error);
      }
    }
    return MakeLane(handle_, std::move(parts),
                    [this, bytes](std::unique_ptr<LaneParts> used) {
                      Release(bytes, std::move(used));
                    });
  } catch (...) {  // std::bad_alloc
    Release(bytes, nullptr);
    throw;
  }
}

DeviceState CudaDevice::state() const {
  DeviceState state{handle_.name, 0, memory_limit_, lost()};
  const std::lock_guard lock(mutex_);
  uint64_t used = 0;
  if (!state.lost && handle_.pool != nullptr &&
      cudaMemPoolGetAttribute(handle_.pool, cudaMemPoolAttrReservedMemCurrent,
                              &used) == cudaSuccess) {
    state.memory_bytes = static_cast<int64_t>(used);
  }
  return state;
}

// Returns why there is no device. cudaGetDeviceCount() returns the same error
// for a missing driver and for an old one.
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
