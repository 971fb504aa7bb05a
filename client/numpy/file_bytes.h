// Reads files, and maps them if possible.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.h"

namespace topk {

/// The content of a file.
struct FileBytes {
  std::span<const std::byte> data;
  /// Owns the memory of `data`.
  std::shared_ptr<const void> owner;
};

/// Maps a file, or reads it if it cannot be mapped, e.g. a pipe. Stops reading
/// if the content is not an array. "-" is standard input. Returns NOT_FOUND if
/// the file cannot be read.
Result<FileBytes> ReadFileBytes(const std::string& path);

}  // namespace topk
