// How a tensor is cut for a device: into pieces of so many rows, and each piece
// into parts that are one task.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/cuda/method.h"
#include "core/plan/plan.h"

namespace topk::cuda {

/// So many elements a piece has where the shape does not ask for more: enough
/// that copying takes longer than to begin it.
inline constexpr int64_t kPieceElements = int64_t{4} << 20;

/// A run of rows, [blocks, rows, inner] of the tensor: whole blocks, or a part
/// of one. A row is the `inner` elements with one index along the axis.
struct Part {
  /// The outer index of the first block.
  int64_t first_block = 0;
  int64_t blocks = 1;
  /// Along the axis, of each block.
  int64_t first_row = 0;
  int64_t rows = 0;

  /// Whether its slices end here.
  bool Ends(const Plan& plan) const { return first_row + rows == plan.n; }
};

/// Returns how many rows a piece has: whole blocks where one fits, else at
/// least k rows, so that what is carried from piece to piece is not sorted much
/// more often than what is new. `elements` is kPieceElements but in tests.
/// REQUIRES: plan.input.bytes > 0.
int64_t RowsPerPiece(const Plan& plan, int64_t elements);

/// Returns the parts of rows [begin, end) of all outer * n rows: at most the
/// rest of a block, some whole blocks, and the beginning of one.
std::vector<Part> CutRows(const Plan& plan, int64_t begin, int64_t end);

/// Returns the method of most of the work. REQUIRES: plan.input.bytes > 0.
Method MethodOf(const Plan& plan, int64_t rows_per_piece);

/// Returns about how many bytes of device memory a fold over the plan takes.
int64_t DeviceBytes(const Plan& plan, int64_t rows_per_piece);

}  // namespace topk::cuda
