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

/// Returns the number of positions in a chunk of at most about `bytes` bytes. A
/// position is an index along the axis, and has `inner` elements in each batch.
/// A chunk has whole batches, or a part of one batch with at least k / 2
/// positions, so that the k items carried over from earlier chunks are at most
/// two thirds of the items to process. REQUIRES: plan.input.bytes > 0.
int64_t PositionsPerChunk(const Plan& plan, int64_t bytes);

/// Returns an upper bound on the device memory of a CudaFold, in bytes. The
/// fold copies the tensor to the device, unless it is `in_place`.
int64_t DeviceBytes(const Plan& plan, int64_t chunk_positions,
                    bool in_place = false);

/// The speeds of a device for tensors in host memory. The defaults are low for
/// a device of a server.
struct Speeds {
  /// The time of a request with a few elements, in nanoseconds.
  double request_nanoseconds = 90000;
  /// The number of bytes that are copied to or from the device per nanosecond.
  double copied_bytes = 9;
  /// The number of items that the device sorts per nanosecond. (The device
  /// selects from a chunk in less time than copying the chunk takes.)
  double sorted_items = 5;
};

/// Returns the estimated time to run a plan on a tensor in host memory. The
/// device copies a chunk while it sorts another. REQUIRES: plan.input.bytes >
/// 0.
int64_t EstimateNanoseconds(const Plan& plan, int64_t chunk_positions,
                            const Speeds& speeds);

}  // namespace topk::cuda
