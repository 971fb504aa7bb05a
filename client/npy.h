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

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace topk {

/// What a file's header says.
struct NpyHeader {
  /// NumPy's name of the type without the byte order, e.g. "f4".
  std::string type;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// Where the data begins, in bytes from the file's start.
  size_t data_offset = 0;
};

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

/// Parses the header at the start of a file's content (format 1.0, 2.0 or 3.0).
/// INVALID_ARGUMENT says what is wrong.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> file);

/// Reads a file's content: byte-swaps big-endian data and transposes Fortran
/// order. `as_bf16` reads a 2-byte type (V2, u2), which is how bfloat16 is
/// stored, as bf16. The owner keeps `file` valid.
Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner, bool as_bf16);

/// Maps a file, or reads standard input for "-", and parses it. NOT_FOUND if it
/// cannot be opened.
Result<NpyArray> ReadNpy(const std::string& path, bool as_bf16);

/// Writes a packed little-endian array so that np.load reads it: a temporary
/// file beside it, then renamed. bf16 is written as V2, as ml_dtypes does.
Status WriteNpy(const std::string& path, DType dtype,
                std::span<const int64_t> shape, std::string_view data);

}  // namespace topk
