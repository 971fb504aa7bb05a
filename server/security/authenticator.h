// Authentication and authorization of callers.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <memory>
#include <shared_mutex>
#include <string>

#include "core/base/status.h"
#include "server/security/client_certificates.h"
#include "server/security/client_names.h"
#include "server/security/security_config.h"
#include "server/security/token_set.h"
#include "server/security/watched_files.h"

namespace topk {

/// The caller of an RPC.
struct Caller {
  /// The name of its token, else the name of its certificate that may call (or
  /// the first, or its common name), else its IP address or "unix".
  std::string name;
  /// Whose limits it has: the name after its kind, "token:", "cert:" or
  /// "addr:", or "unix". An IPv6 address is that of its network.
  std::string key;
  /// Whether a token or a certificate proves it.
  bool authenticated = false;
};

/// Checks each call's token and its connection's certificate, if the settings
/// ask for them; both, if they ask for both. Thread-safe.
class Authenticator {
 public:
  /// Loads the files, which are loaded again when they change: a bad one is
  /// logged, and those before stay good. Returns what is wrong with the
  /// settings. The logger outlives it.
  static Result<std::unique_ptr<Authenticator>> Start(
      const SecurityConfig& config, spdlog::logger& log);

  /// Returns who makes a call. UNAUTHENTICATED with the reason TOKEN_MISSING or
  /// TOKEN_UNKNOWN, see also ClientCertificates::Check(); PERMISSION_DENIED,
  /// CLIENT_NOT_ALLOWED, with the names of the certificate. Those who come over
  /// a Unix socket need no certificate: its permissions have let them in.
  Result<Caller> Authenticate(const grpc::ServerContextBase& context) const;

 private:
  explicit Authenticator(const SecurityConfig& config)
      : ipv6_prefix_(config.client_ipv6_prefix) {}

  Status CheckCertificate(const grpc::ServerContextBase& context,
                          Caller& caller) const;
  Status CheckBearer(const grpc::ServerContextBase& context,
                     Caller& caller) const;

  const int ipv6_prefix_;
  std::unique_ptr<ClientCertificates> certificates_;  // null: none are needed
  AllowedNames allowed_;
  mutable std::shared_mutex mutex_;
  TokenSet tokens_;
  std::unique_ptr<WatchedFiles> tokens_file_;  // null: none are needed
};

}  // namespace topk
