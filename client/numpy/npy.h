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
#include "topk/status.h"

namespace topk {

/// An array read from a file.
struct NpyArray {
  DType dtype;
  std::vector<int64_t> shape;
  /// The packed elements, little-endian and row-major. Points to the
  /// file's content, or to a copy if the file has a different byte order or
  /// element order.
  std::span<const std::byte> data;
  /// Owns the memory of `data`.
  std::shared_ptr<const void> owner;
};

/// Returns whether NumPy has a name for the type. Files store elements of other
/// types as raw bytes (V1, V2) or as integers (u1, i1, u2, i2). An element of
/// less than a byte is in the lowest bits of a byte.
bool HasNpyName(const DTypeInfo& type);

/// Returns the size of a file in bytes, computed from its header. `start` is
/// the start of the file or the whole file. For `as`, see ParseNpy(). Returns
/// INVALID_ARGUMENT if ParseNpy() would reject the header.
Result<size_t> NpyFileSize(std::span<const std::byte> start,
                           std::optional<DType> as);

/// Parses the content of a file. Converts the data to little-endian row-major
/// order, and packs elements of less than a byte. Set `as` to the element type
/// if HasNpyName() is false for the type. `owner` owns the memory of `file`.
Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner,
                          std::optional<DType> as);

/// Reads and parses a file; see ReadFileBytes().
Result<NpyArray> ReadNpy(const std::string& path, std::optional<DType> as);

/// Returns the content of a .npy file with a packed little-endian array, for
/// np.load. Types without a NumPy name are stored as V1 or V2, as in ml_dtypes.
/// Elements of less than a byte take one byte.
std::string NpyBytes(DType dtype, std::span<const int64_t> shape,
                     std::string_view data);

/// Writes a temporary file in the same folder, then renames it.
Status WriteFile(const std::string& path, std::string_view content);

}  // namespace topk
