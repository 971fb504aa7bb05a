// Tells a supervisor, or a test that listens on port 0, where the server is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/transport/owned_file.h"

namespace topk {

/// Writes {"listen": [...], "metrics": "...", ...} to a file at `path`, which
/// appears with its whole content and replaces an earlier file. `others` are
/// addresses by name. Returns the file, which is locked until it is destroyed.
Result<OwnedFile> WriteReadyFile(
    const std::string& path, const std::vector<std::string>& listen,
    const std::map<std::string, std::string>& others);

/// Removes the ready file of a server that was killed, unless another process
/// has locked the file.
void RemoveStaleReadyFile(const std::string& path);

}  // namespace topk
