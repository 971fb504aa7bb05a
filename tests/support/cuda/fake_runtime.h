// A CUDA runtime without a GPU, so that every machine and every sanitizer can
// run the CUDA backend.
//
// Each stream is a thread, so ThreadSanitizer reports missing waits. Device
// memory is from malloc(), so AddressSanitizer reports accesses that are out of
// bounds or after a free. New and freed memory is overwritten.
//
// Aborts the process if code uses an object of a device that is not the
// thread's current one, or frees memory twice.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/backends/cuda/device.h"

namespace topk::testing {

/// The machine that the runtime simulates, and the calls that fail.
struct FakeCuda {
  int devices = 1;
  /// Memory per device, in bytes.
  size_t memory = size_t{4} << 30;
  /// The driver's CUDA version, as returned by cudaDriverGetVersion().
  int driver = 13000;
  /// The number of calls that succeed before a call fails with `error`.
  /// Negative = no call fails. Counts calls of any function that can fail.
  int64_t calls_until_error = -1;
  cudaError_t error = cudaErrorIllegalAddress;
  /// Whether all later calls fail too.
  bool sticky = true;
  /// If not empty, only calls of this function fail and are counted, e.g.
  /// "cudaEventRecord". Launches of kernels are calls of "launch".
  std::string_view function = "";
  /// If not negative, only calls on this device are counted and fail.
  int device = -1;
  /// The least time of a copy.
  std::chrono::milliseconds copy_time{0};
};

/// Configures the runtime until destruction. REQUIRES: no other instance
/// exists, and no object of the runtime outlives this instance.
class ScopedFakeCuda {
 public:
  explicit ScopedFakeCuda(const FakeCuda& fake = {});
  ScopedFakeCuda(const ScopedFakeCuda&) = delete;
  ScopedFakeCuda& operator=(const ScopedFakeCuda&) = delete;
  ~ScopedFakeCuda();

  /// Changes the configuration and resets the number of calls.
  void Set(const FakeCuda& fake);
  /// The number of calls that could have failed since the last Set().
  int64_t calls() const;
  /// While true, streams do not start any work.
  void Hang(bool hangs);
  /// Whether a stream waits until Hang(false).
  bool has_work() const;
};

/// Queues kernel() on a stream. Returns the error of an
/// earlier call if the thread has not cleared that error, like the launch of a
/// CUDA kernel.
cudaError_t FakeLaunch(cudaStream_t stream, std::function<void()> kernel);

}  // namespace topk::testing
