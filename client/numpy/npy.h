// Reads and writes NumPy's .npy files.
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

/// An array read from a file.
struct NpyArray {
  DType dtype;
  std::vector<int64_t> shape;
  /// Little-endian and row-major, with the size that shape and type imply.
  /// Points to the mapped file, or to memory if the file had another byte or
  /// element order.
  std::span<const std::byte> data;
  /// Owns the mapping or the memory.
  std::shared_ptr<const void> owner;
};

/// Returns whether .npy has a name for a type. Other types are stored as in
/// ml_dtypes: bf16 as V2, u2 or i2, and types of a byte or less as V1, u1 or
/// i1, one element in the lowest bits of each byte.
bool HasNpyName(const DTypeInfo& type);

/// Returns the size in bytes that a file's header, shape and type imply.
/// `start` is the start of the file or all of it, and `as` is as for
/// ParseNpy(). INVALID_ARGUMENT if ParseNpy() would reject the header.
Result<size_t> NpyFileSize(std::span<const std::byte> start,
                           std::optional<DType> as);

/// Parses the content of a file. Byte-swaps big-endian data, transposes Fortran
/// order, and packs elements of less than a byte. `as` is the element type, if
/// .npy has no name for it. `owner` keeps `file` valid.
Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner,
                          std::optional<DType> as);

/// Reads and parses a file; see ReadFileBytes().
Result<NpyArray> ReadNpy(const std::string& path, std::optional<DType> as);

/// Returns the file for a packed little-endian array, which np.load can read.
/// Types without a NumPy name are V1 or V2, as in ml_dtypes; elements of less
/// than a byte take one byte.
std::string NpyBytes(DType dtype, std::span<const int64_t> shape,
                     std::string_view data);

/// Writes a temporary file in the same folder, then renames it.
Status WriteFile(const std::string& path, std::string_view content);

}  // namespace topk
