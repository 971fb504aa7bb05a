// The header of NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topk/status.h"

namespace topk {

/// Maximum number of bytes from the start of a file to the end of its header.
/// NumPy itself rejects longer headers in untrusted files.
inline constexpr size_t kMaxNpyStart = 12 + 10000;

/// The description of the array at the start of a .npy file.
struct NpyHeader {
  /// NumPy's name of the type, without the byte order, e.g. "f4".
  std::string type;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// The offset of the data in the file, in bytes.
  size_t data_offset = 0;
};

/// Parses the header at the start of a file's content (format 1.0, 2.0 or 3.0).
/// Returns INVALID_ARGUMENT if the header is malformed.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> file);

/// Returns an INVALID_ARGUMENT error. `what` says why the file is not a .npy
/// file.
Status MalformedNpy(std::string_view what);

/// Returns the beginning of a .npy file in format 1.0 (magic, header and
/// padding) for little-endian row-major data. The data begins at a multiple of
/// 64 bytes, so it can be mapped. REQUIRES: the result is smaller than 64 KiB.
/// This holds for any shape that was read from a file.
std::string NpyFileStart(std::string_view descr,
                         std::span<const int64_t> shape);

}  // namespace topk
