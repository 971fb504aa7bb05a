// Tells a supervisor, or a test that listens on port 0, where the server is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/transport/owned_file.h"

namespace topk {

/// Writes {"listen": [...], "metrics": "...", ...} to the path, atomically (a
/// temporary file next to it, renamed). `others` are addresses by name; empty
/// ones are omitted, and bytes that are not UTF-8 become U+FFFD. Returns the
/// file, which is locked until it is destroyed. Replaces nothing but a ready
/// file or an empty file.
Result<OwnedFile> WriteReadyFile(
    const std::string& path, const std::vector<std::string>& listen,
    const std::map<std::string, std::string>& others);

/// Removes the ready file of a server that was killed: one that no process has
/// locked. Does nothing if there is no file. UNAVAILABLE if the path has
/// something that is neither a ready file nor an empty regular file.
Status RemoveStaleReadyFile(const std::string& path);

}  // namespace topk
