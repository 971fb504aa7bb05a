#include "server/security/server_security.h"

#include <algorithm>
#include <utility>

#include "core/security/local_address.h"

namespace topk {

Result<ServerSecurity> LoadSecurity(const SecurityConfig& config,
                                    const std::vector<std::string>& listen,
                                    spdlog::logger& log) {
  ServerSecurity security;
  if (config.tls()) {
    Result<std::unique_ptr<ServerTls>> tls = ServerTls::Start(
        {config.tls_cert, config.tls_key, config.tls_client_ca}, log);
    if (!tls.ok()) return tls.status();
    security.tls = *std::move(tls);
  }
  Result<std::unique_ptr<Authenticator>> authenticator =
      Authenticator::Start(config, log);
  if (!authenticator.ok()) return authenticator.status();
  security.authenticator = *std::move(authenticator);
  const auto is_local = [](const std::string& address) {
    return IsUnixAddress(address) || IsLoopback(address);
  };
  if (!config.auth_tokens_file.empty() && security.tls == nullptr &&
      !std::ranges::all_of(listen, is_local)) {
    log.warn(
        "TLS is off: bearer tokens are sent unencrypted, which is safe only "
        "behind a proxy that terminates TLS");
  }
  return security;
}

}  // namespace topk
