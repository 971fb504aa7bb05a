// The header of NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// The longest start of a file in which a header that is accepted ends, in
/// bytes: NumPy itself rejects longer headers of untrusted files.
inline constexpr size_t kMaxNpyStart = 12 + 10000;

/// The header of a .npy file.
struct NpyHeader {
  /// NumPy's name of the type without the byte order, e.g. "f4".
  std::string type;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// Where the data begins, in bytes from the file's start.
  size_t data_offset = 0;
};

/// Parses the header at the start of a file's content (format 1.0, 2.0 or 3.0).
/// INVALID_ARGUMENT if the header is malformed.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> file);

/// Returns an INVALID_ARGUMENT status: the file is not a .npy file,
/// because `what`.
Status MalformedNpy(std::string_view what);

/// Returns the whole start of a file with this header, magic and padding
/// included: format 1.0, little-endian, row-major, so long that the data begins
/// at a multiple of 64 bytes and can be mapped.
/// REQUIRES: fewer than 64 KiB of it; any shape that was read from one fits.
std::string NpyFileStart(std::string_view descr,
                         std::span<const int64_t> shape);

}  // namespace topk
