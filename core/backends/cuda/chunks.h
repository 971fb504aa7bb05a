// Divides a tensor into chunks that a device processes one after another, and
// estimates the memory and time that the device needs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/cuda/tasks.h"
#include "core/plan/plan.h"

namespace topk::cuda {

/// The default number of elements per chunk. Copying a chunk of this size takes
/// much longer than starting the copy.
inline constexpr int64_t kChunkElements = int64_t{4} << 20;

/// The input of one task, with the shape [batches, positions, inner]. A tile
/// has whole batches, or some positions of one batch. A position is an index
/// along the axis, and has `inner` elements in each batch.
struct Tile {
  int64_t first_batch = 0;
  int64_t batches = 1;
  int64_t first_position = 0;
  int64_t positions = 0;

  /// Whether the tile contains the last position of its batches.
  bool Ends(const Plan& plan) const {
    return first_position + positions == plan.n;
  }
};

/// Returns the number of positions per chunk. A chunk has about `elements`
/// elements. If at least one batch fits, a chunk has only whole batches.
/// Otherwise, a chunk has at least k positions, so that it has at least as many
/// new items as carried items. REQUIRES: plan.input.bytes > 0.
int64_t PositionsPerChunk(const Plan& plan, int64_t elements);

/// Cuts the positions [begin, end), out of all outer * n positions, into at
/// most three tiles: the rest of one batch, some whole batches, and the
/// beginning of another batch.
std::vector<Tile> CutTiles(const Plan& plan, int64_t begin, int64_t end);

/// Returns the method that most tiles use. REQUIRES: plan.input.bytes > 0.
Method MethodOf(const Plan& plan, int64_t chunk_positions);

/// Returns an upper bound on the device memory of a CudaFold, in bytes.
int64_t DeviceBytes(const Plan& plan, int64_t chunk_positions);

/// Returns the estimated time to run a plan on a tensor in host memory. This is
/// the longer of two times: copying the tensor to the device and the outputs
/// back, or computing. REQUIRES: plan.input.bytes > 0.
int64_t EstimateNanoseconds(const Plan& plan, int64_t chunk_positions);

}  // namespace topk::cuda
