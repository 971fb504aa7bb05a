// Reads files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "topk/status.h"

namespace topk {

/// The content of a file.
struct FileBytes {
  std::span<const std::byte> data;
  /// Owns the memory of `data`.
  std::shared_ptr<const void> owner;
};

/// Reads a file. "-" is standard input. Stops early if the format is unknown.
/// Returns NOT_FOUND if the file cannot be read.
Result<FileBytes> ReadFileBytes(const std::string& path);

/// kText includes UTF-16, which ParseText() rejects.
enum class FileFormat { kNpy, kNpz, kText, kUnknown };

/// Returns the format of a file, judged by its first bytes.
FileFormat FormatOf(std::span<const std::byte> content);

}  // namespace topk
