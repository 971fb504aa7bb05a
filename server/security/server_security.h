// The certificates and tokens of a server.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/security/authenticator.h"
#include "server/security/security_config.h"
#include "server/security/server_tls.h"

namespace topk {

/// Everything that the security settings name, loaded.
struct ServerSecurity {
  /// Null: the listeners are plain text.
  std::unique_ptr<ServerTls> tls;
  /// Checks the callers; never null.
  std::unique_ptr<Authenticator> authenticator;
};

/// Loads the files of the settings, or returns what is wrong with them. Warns
/// if tokens would be sent unencrypted to one of the `listen` addresses. The
/// logger outlives the result.
Result<ServerSecurity> LoadSecurity(const SecurityConfig& config,
                                    const std::vector<std::string>& listen,
                                    spdlog::logger& log);

}  // namespace topk
