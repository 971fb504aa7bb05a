// Divides a tensor into chunks that a device processes one after another, and
// estimates the memory and time that the device needs.
#pragma once

#include <cstdint>

#include "core/backends/cuda/tasks.h"
#include "core/plan/plan.h"

namespace topk::cuda {

/// The default size of a chunk. Copying a chunk of this size takes much longer
/// than starting the copy.
inline constexpr int64_t kChunkBytes = int64_t{16} << 20;

/// Returns the number of batches in a chunk of at most about `bytes` bytes. A
/// chunk has whole batches, so it may be larger. REQUIRES: plan.input.bytes >
/// 0.
int64_t BatchesPerChunk(const Plan& plan, int64_t bytes);

/// Returns an upper bound on the device memory of a CudaFold, in bytes. The
/// fold copies the tensor to the device, unless it is `in_place`.
int64_t DeviceBytes(const Plan& plan, int64_t chunk_batches,
                    bool in_place = false);

/// The speeds of a device for tensors in host memory. The defaults are low for
/// a device of a server.
struct Speeds {
  /// The time of a request with a few elements, in nanoseconds.
  double request_nanoseconds = 90000;
  /// The number of bytes that are copied to or from the device per nanosecond.
  double copied_bytes = 9;
  /// The number of elements that the device sorts per nanosecond. (The device
  /// selects from a chunk in less time than copying the chunk takes.)
  double sorted_elements = 5;
};

/// Returns the estimated time to run a plan on a tensor in host memory.
int64_t EstimateNanoseconds(const Plan& plan, const Speeds& speeds);

}  // namespace topk::cuda
