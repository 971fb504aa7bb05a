// NumPy's .npz archives: .npy files in a zip.
#pragma once

#include <optional>
#include <string>

#include "client/numpy/npy.h"
#include "core/base/status.h"

namespace topk {

/// Reads an array from a .npy file, or from the member of a .npz archive that
/// NumPy calls `member`; which of both it is, its first bytes say. "" is the
/// only member; of several, one must be named. "-" is standard input, `as` as
/// for ParseNpy(). NOT_FOUND if it cannot be read, INVALID_ARGUMENT, with
/// the members' names, if it has no such member.
Result<NpyArray> ReadArray(const std::string& path, const std::string& member,
                           std::optional<DType> as);

}  // namespace topk
