// A device by the CUDA runtime: its memory pool, and its lanes, which are kept
// for the next caller, for pinned memory takes long to get.
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

// At once; more have no use of one device, and each has pinned memory.
constexpr int kLanes = 16;

class CudaDevice final : public Device {
 public:
  // Null where the device cannot be used.
  static std::unique_ptr<CudaDevice> Open(int number, int64_t memory_bytes);
  ~CudaDevice() override;

  Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) override;
  std::string_view architecture() const override { return architecture_; }
  bool lost() const override {
    return handle_.lost.load(std::memory_order_relaxed);
  }
  int64_t memory_limit() const override { return memory_limit_; }
  DeviceState state() const override;

 private:
  CudaDevice() = default;

  // Takes a lane's room, and parts that nobody uses if there are some.
  Status Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts);
  // Gives both back; null parts are of no use any more.
  void Release(int64_t bytes, std::unique_ptr<LaneParts> parts);

  DeviceHandle handle_;
  int64_t memory_limit_ = 0;
  std::string architecture_;
  std::mutex mutex_;
  // Guarded by it: what lanes may take, how many are open, and the parts of
  // those that are not.
  int64_t reserved_ = 0;
  int open_ = 0;
  std::vector<std::unique_ptr<LaneParts>> idle_;
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
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  device->handle_.number = number;
  device->handle_.name = properties.name;
  device->architecture_ = StrCat("sm_", properties.major, properties.minor);
  device->memory_limit_ =
      memory_bytes > 0 ? memory_bytes : static_cast<int64_t>(total / 2);
  cudaMemPoolProps pool{};
  pool.allocType = cudaMemAllocationTypePinned;
  pool.location.type = cudaMemLocationTypeDevice;
  pool.location.id = number;
  if (cudaMemPoolCreate(&device->handle_.pool, &pool) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  // Freed memory is kept for later requests, up to the limit.
  auto keep = static_cast<uint64_t>(device->memory_limit_);
  if (cudaMemPoolSetAttribute(device->handle_.pool,
                              cudaMemPoolAttrReleaseThreshold,
                              &keep) != cudaSuccess) {
    return nullptr;
  }
  return device;
}

CudaDevice::~CudaDevice() {
  if (handle_.Use() != cudaSuccess) return;
  idle_.clear();
  if (handle_.pool != nullptr) cudaMemPoolDestroy(handle_.pool);
}

Status CudaDevice::Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts) {
  const std::lock_guard lock(mutex_);
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
      if (Status s = handle_.Check(error); !s.ok()) {
        Release(bytes, nullptr);
        return s;
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
  uint64_t used = 0;
  if (!state.lost && handle_.Use() == cudaSuccess &&
      cudaMemPoolGetAttribute(handle_.pool, cudaMemPoolAttrReservedMemCurrent,
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
      StrCat("this machine has no CUDA device: ",
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
