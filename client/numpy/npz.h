// Reads and writes NumPy's .npz archives: .npy files in a zip.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/numpy/npy.h"
#include "topk/status.h"

namespace topk {

/// How to read an array.
struct ReadOptions {
  /// The name of the array in a .npz archive, or "" if there is only one.
  std::string member;
  /// The element type in a .npy file or .npz archive; see ParseNpy().
  std::optional<DType> dtype;
  /// Whether to skip the first line of text.
  bool has_header = false;
};

/// Reads an array from a .npy file, a .npz archive or text (see ParseText()),
/// depending on the file's first bytes. "-" is standard input. Returns
/// NOT_FOUND if the file cannot be read. Returns INVALID_ARGUMENT if an option
/// does not apply to the format, and with a list of the members if there is no
/// such member.
Result<NpyArray> ReadArray(const std::string& path, const ReadOptions& options);

/// An array to write to a .npz archive.
struct NpyMember {
  std::string name;
  /// The content of the .npy file; see NpyBytes().
  std::string content;
};

/// Writes an uncompressed .npz archive, as numpy.savez does.
Status WriteNpz(const std::string& path, std::span<const NpyMember> members);

}  // namespace topk
