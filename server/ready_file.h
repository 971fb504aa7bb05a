// A file that tells a supervisor or a test where the server listens.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/transport/owned_file.h"
#include "topk/status.h"

namespace topk {

/// Atomically writes {"listen": [...], "metrics": "...", ...} to `path`,
/// replacing an existing file. `others` maps the other keys, e.g. "metrics", to
/// addresses. The file stays locked until the returned object is destroyed.
Result<OwnedFile> WriteReadyFile(
    const std::string& path, const std::vector<std::string>& listen,
    const std::map<std::string, std::string>& others);

/// Removes the ready file of a server that was killed. Leaves the file alone if
/// another process has locked it. Returns an error if the path is a device, a
/// link or anything else that is not a regular file.
Status RemoveStaleReadyFile(const std::string& path);

}  // namespace topk
