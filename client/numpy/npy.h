// NumPy's .npy files: read in place, written whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/numpy/npy_header.h"
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

/// Whether .npy files have a name for a type. The others lie in them as
/// ml_dtypes has them: the bits of bf16 in V2, u2 or i2, those of the types of
/// a byte or less in V1, u1 or i1, a byte an element, the lowest bits its own.
bool HasNpyName(const DTypeInfo& type);

/// Returns the size in bytes of the file that begins with `start`, which may be
/// all of it: what its header, shape and type imply. `as` is as for ParseNpy().
/// INVALID_ARGUMENT for what ParseNpy() would reject by the header.
Result<size_t> NpyFileSize(std::span<const std::byte> start,
                           std::optional<DType> as);

/// Reads a file's content: byte-swaps big-endian data and transposes Fortran
/// order. `as` is what its elements are if their type has no name, and packs
/// those of less than a byte. The owner keeps `file` valid.
Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner,
                          std::optional<DType> as);

/// Parses a file, mapped if it can be: see ReadFileBytes().
Result<NpyArray> ReadNpy(const std::string& path, std::optional<DType> as);

/// Returns a packed little-endian array as a file that np.load reads. Types
/// without a NumPy name are V1 or V2, as in ml_dtypes; elements of less than a
/// byte take one byte.
std::string NpyBytes(DType dtype, std::span<const int64_t> shape,
                     std::string_view data);

/// Writes a temporary file in the same folder, then renames it.
Status WriteFile(const std::string& path, std::string_view content);

}  // namespace topk
