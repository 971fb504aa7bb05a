// Reads and writes NumPy's .npz archives: .npy files in a zip.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/numpy/npy.h"
#include "core/base/status.h"

namespace topk {

/// Reads an array from a .npy file, text (see ParseText()) or a .npz archive,
/// depending on the file's first bytes. `member` is NumPy's name of the array
/// in the archive; "" requires that there is only one. `as` is as for
/// ParseNpy(). "-" is standard input. NOT_FOUND if the file cannot be read.
/// INVALID_ARGUMENT, listing the members, if there is no such member.
Result<NpyArray> ReadArray(const std::string& path, const std::string& member,
                           std::optional<DType> as);

/// One array of a .npz archive to write.
struct NpyMember {
  std::string name;
  /// The .npy file; see NpyBytes().
  std::string content;
};

/// Writes an archive like numpy.savez.
Status WriteNpz(const std::string& path, std::span<const NpyMember> members);

}  // namespace topk
