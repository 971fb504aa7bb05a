// Tells a supervisor, or a test that listens on port 0, where the server is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// Writes {"listen": [...], "metrics": "...", ...} to the path, whole or not at
/// all (a temporary file beside it, renamed). Of the others, which are
/// addresses by names, the empty ones are left out.
Status WriteReadyFile(const std::string& path,
                      const std::vector<std::string>& listen,
                      const std::map<std::string, std::string>& others);

}  // namespace topk
