// The flags of SecurityConfig.
#pragma once

#include <CLI/CLI.hpp>

#include "server/config/config.h"
#include "server/config/config_table.h"

namespace topk {

/// Adds the server's flags for TLS, tokens and limits, with their variables.
void AddSecurityFlags(ConfigTable& table, SecurityConfig& config);

/// Adds the flags with which topkd healthcheck asks a server that has TLS.
void AddHealthcheckTlsFlags(CLI::App& command, HealthcheckConfig& config);

}  // namespace topk
