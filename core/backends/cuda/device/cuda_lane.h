// The lanes of a device, by the CUDA runtime. For cuda_device.cc alone.
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

/// A device of the runtime. Thread-safe once it is made.
struct DeviceHandle {
  int number = 0;
  std::string name;
  cudaMemPool_t pool = nullptr;
  std::atomic<bool> lost = false;

  /// Makes this thread's calls go to the device.
  cudaError_t Use() const { return cudaSetDevice(number); }

  /// Returns an error as a status. All but a lack of memory ends the device:
  /// the runtime says the same to every later call.
  Status Check(cudaError_t error);
};

/// Returns an error's name and text.
std::string TextOf(cudaError_t error);

/// An event, which is past until it is recorded.
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

/// A lane's resources on a device: two streams, and two staging buffers.
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

/// Returns a lane with these parts, which it hands back at its end, its work
/// done; null if they are of no use any more. The device outlives it.
std::unique_ptr<Lane> MakeLane(
    DeviceHandle& device, std::unique_ptr<LaneParts> parts,
    std::function<void(std::unique_ptr<LaneParts>)> give_back);

}  // namespace topk::cuda
