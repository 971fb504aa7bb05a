// NumPy's .npz archives: .npy files in a zip.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/numpy/npy.h"
#include "core/base/status.h"

namespace topk {

/// Reads an array from a .npy file, from text (see ParseText()), or from the
/// member of a .npz archive that NumPy calls `member`, as the file's first
/// bytes say. "" is the only member; of several, one must be named. "-" is
/// standard input, `as` as for ParseNpy(). NOT_FOUND if it cannot be read,
/// INVALID_ARGUMENT, with the members' names, if it has no such member.
Result<NpyArray> ReadArray(const std::string& path, const std::string& member,
                           std::optional<DType> as);

/// An array of an archive to write.
struct NpyMember {
  std::string name;
  /// See NpyBytes().
  std::string content;
};

/// Writes an archive as numpy.savez does.
Status WriteNpz(const std::string& path, std::span<const NpyMember> members);

}  // namespace topk
