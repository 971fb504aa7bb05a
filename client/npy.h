// NumPy's .npy files: read in place, written whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/npy_header.h"
#include "core/base/dtype.h"
#include "core/base/status.h"

namespace topk {

/// An array from a file.
struct NpyArray {
  DType dtype;
  std::vector<int64_t> shape;
  /// Little-endian, row-major, as long as shape and type imply. Lies in the
  /// mapped file, or in memory where the file had another order.
  std::span<const std::byte> data;
  /// Owns the mapping or the memory.
  std::shared_ptr<const void> owner;
};

/// Reads a file's content: byte-swaps big-endian data and transposes Fortran
/// order. `as_bf16` reads a 2-byte type (V2, u2), which is how bfloat16 is
/// stored, as bf16. The owner keeps `file` valid.
Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner, bool as_bf16);

/// Parses a file, mapped if it can be: see ReadFileBytes().
Result<NpyArray> ReadNpy(const std::string& path, bool as_bf16);

/// Writes a packed little-endian array so that np.load reads it: a temporary
/// file beside it, then renamed. bf16 is written as V2, as ml_dtypes does.
Status WriteNpy(const std::string& path, DType dtype,
                std::span<const int64_t> shape, std::string_view data);

}  // namespace topk
