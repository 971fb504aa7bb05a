// The lanes of a device. An implementation detail of cuda_device.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/backends/cuda/device.h"
#include "core/base/status.h"

namespace topk::cuda {

/// A device of the CUDA runtime.
struct DeviceHandle {
  int number = 0;
  std::string name;
  cudaMemPool_t pool = nullptr;
  std::atomic<bool> lost = false;

  /// Selects the device for this thread's calls.
  cudaError_t Use() const { return cudaSetDevice(number); }

  /// Returns the status for an error, and sets `lost` if the error is sticky:
  /// every later call of this process would fail. REQUIRES: not cudaSuccess.
  Status StatusOf(cudaError_t error);
};

/// Returns an error's name and text.
std::string TextOf(cudaError_t error);

/// The deleter of a CUDA type, e.g. CudaFree<cudaEventDestroy>.
template <auto kFree>
struct CudaFree {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Stream = std::unique_ptr<CUstream_st, CudaFree<cudaStreamDestroy>>;
/// Waiting for an event that was never recorded is a no-op.
using Event = std::unique_ptr<CUevent_st, CudaFree<cudaEventDestroy>>;

/// Creates an event. Threads that wait for it do not spin.
inline cudaError_t Create(Event& event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(
      &created, cudaEventDisableTiming | cudaEventBlockingSync);
  event.reset(created);
  return error;
}

/// The resources of a lane. The device reuses them, because pinned memory is
/// slow to allocate.
struct LaneParts {
  struct Staging {
    std::unique_ptr<std::byte, CudaFree<cudaFreeHost>> data;
    Event copied;
  };
  Stream copying;
  Stream computing;
  std::array<Staging, 2> staging;

  cudaError_t Create();
};

/// Returns a lane with these parts. The lane's destructor waits for its work
/// and passes the parts to `give_back`, or null if the parts cannot be reused.
/// The device must outlive the lane.
std::unique_ptr<Lane> MakeLane(
    DeviceHandle& device, std::unique_ptr<LaneParts> parts,
    std::function<void(std::unique_ptr<LaneParts>)> give_back);

}  // namespace topk::cuda
