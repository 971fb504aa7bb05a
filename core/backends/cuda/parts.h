// Divides a tensor for a device: into pieces of a number of rows, and each
// piece into parts of one task each.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/cuda/method.h"
#include "core/plan/plan.h"

namespace topk::cuda {

/// The number of elements per piece, unless the shape requires more: large
/// enough that copying takes longer than starting the copy.
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
