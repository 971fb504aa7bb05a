// A file's content where it lies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.h"

namespace topk {

/// The content of a file, and what keeps it there.
struct FileBytes {
  std::span<const std::byte> data;
  /// Owns the mapping or the memory.
  std::shared_ptr<const void> owner;
};

/// Maps a file, or reads what cannot be mapped (a pipe) to its end; "-" is
/// standard input. NOT_FOUND if it cannot be read.
Result<FileBytes> ReadFileBytes(const std::string& path);

}  // namespace topk
