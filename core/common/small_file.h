// Reads small files, such as certificates, keys and tokens.
#pragma once

#include <string>

#include "topk/status.h"

namespace topk {

/// A file and the flag that names it, for error messages.
struct NamedFile {
  /// E.g. "--tls-cert".
  std::string flag;
  std::string path;
};

/// Returns the contents of a regular file. Returns NOT_FOUND, naming the flag,
/// the file and the reason, if the file cannot be read or is larger than 1 MiB.
Result<std::string> ReadSmallFile(const NamedFile& file);

}  // namespace topk
