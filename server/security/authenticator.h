// Authentication and authorization of callers.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/security/client_certificates.h"
#include "server/security/client_names.h"
#include "server/security/token_set.h"
#include "server/security/watched_files.h"

namespace topk {

/// The settings of TLS, authentication, authorization and rate limits. Each is
/// set by the flag of its name.
struct SecurityConfig {
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::string tls_client_crl;
  std::vector<std::string> tls_allowed_san;
  std::string auth_tokens_file;
  int client_ipv6_prefix = 64;
  double client_requests_per_second = 0;
  double client_bytes_per_second = 0;

  bool tls() const {
    return !tls_cert.empty() || !tls_key.empty() || !tls_client_ca.empty();
  }
};

/// The caller of an RPC.
struct Caller {
  /// The name of its token, else the name of its certificate that may call (or
  /// the first, or its common name), else its IP address or "unix".
  std::string name;
  /// Whose limits it has: the name after its kind, "token:", "cert:" or
  /// "addr:", or "unix". An IPv6 address is that of its network.
  std::string key;
  /// Whether it is on this machine, or its proxy is: it came by a Unix socket
  /// or from a loopback address.
  bool is_local = false;
  /// Whether a token or a certificate proves it.
  bool authenticated = false;
};

/// Checks each call's token and its connection's certificate, if the settings
/// ask for them; both, if they ask for both. Thread-safe.
class Authenticator {
 public:
  /// Loads the tokens, and again when their file changes: an invalid file is
  /// logged, and the previous tokens stay in use. Returns what is wrong with
  /// the settings. `certificates` checks those of clients and is null if
  /// clients need none; it and the logger must outlive the result.
  static Result<std::unique_ptr<Authenticator>> Start(
      const SecurityConfig& config, const ClientCertificates* certificates,
      spdlog::logger& log);

  /// Returns who makes a call. UNAUTHENTICATED with the reason TOKEN_MISSING or
  /// TOKEN_UNKNOWN, see also ClientCertificates::Check(); PERMISSION_DENIED,
  /// CLIENT_NOT_ALLOWED, with the names of the certificate. Those who come over
  /// a Unix socket need no certificate: its permissions have let them in.
  Result<Caller> Authenticate(const grpc::ServerContextBase& context) const;

  /// Whether callers need a token or a certificate, which may be revoked.
  bool needs_credentials() const {
    return certificates_ != nullptr || tokens_file_ != nullptr;
  }

 private:
  Authenticator(int ipv6_prefix, const ClientCertificates* certificates)
      : ipv6_prefix_(ipv6_prefix), certificates_(certificates) {}

  Status CheckCertificate(const grpc::ServerContextBase& context,
                          Caller& caller) const;
  Status CheckBearer(const grpc::ServerContextBase& context,
                     Caller& caller) const;

  const int ipv6_prefix_;
  const ClientCertificates* const certificates_;  // null: none are needed
  AllowedNames allowed_;
  mutable std::shared_mutex mutex_;
  TokenSet tokens_;
  std::unique_ptr<WatchedFiles> tokens_file_;  // null: none are needed
};

}  // namespace topk
