// Reads files, mapped if possible.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.h"

namespace topk {

/// The content of a file, and its owner.
struct FileBytes {
  std::span<const std::byte> data;
  /// Owns the mapping or the memory.
  std::shared_ptr<const void> owner;
};

/// Maps a file, or reads to the end what cannot be mapped, e.g. a pipe. "-" is
/// standard input. NOT_FOUND if the file cannot be read.
Result<FileBytes> ReadFileBytes(const std::string& path);

}  // namespace topk
