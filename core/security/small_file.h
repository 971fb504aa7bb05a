// Files that are read whole: certificates, keys, tokens.
#pragma once

#include <string>

#include "core/base/status.h"

namespace topk {

/// A file and the flag that names it, for messages.
struct NamedFile {
  /// E.g. "--tls-cert".
  std::string flag;
  std::string path;
};

/// Returns a regular file's content. NOT_FOUND, naming the flag, the file and
/// the reason, if it cannot be read or has more than 1 MiB.
Result<std::string> ReadSmallFile(const NamedFile& file);

}  // namespace topk
