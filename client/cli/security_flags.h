// The flags with which all commands reach servers that are guarded.
#pragma once

#include <CLI/CLI.hpp>

#include "client/topk_client.h"

namespace topk::cli {

/// Adds the flags for TLS and tokens, with their variables TOPK_....
void AddSecurityFlags(CLI::App& command, ClientOptions& client);

}  // namespace topk::cli
