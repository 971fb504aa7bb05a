// Tells a supervisor, or a test that listens on port 0, where the server is.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// Writes {"listen": [...], "metrics": "...", "admin": "..."} to the path,
/// whole or not at all (a temporary file beside it, renamed). What is empty is
/// absent.
Status WriteReadyFile(const std::string& path,
                      const std::vector<std::string>& listen,
                      const std::string& metrics, const std::string& admin);

}  // namespace topk
