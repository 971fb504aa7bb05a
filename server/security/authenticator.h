// Authentication and authorization of callers.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
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
  /// The owner of the token, else a name in the certificate (an allowed one,
  /// else the first, else the common name), else the IP address or "unix".
  std::string name;
  /// Identifies the caller for limits: "token:NAME", "cert:NAME",
  /// "addr:ADDRESS" or "unix". All addresses of an IPv6 network have one key.
  std::string key;
  /// Whether the caller, or its proxy, is on this machine: the call came over a
  /// Unix socket or from a loopback address.
  bool is_local = false;
  /// Whether a token or a certificate proves the name.
  bool authenticated = false;
};

/// Checks the token of each call and the certificate of its connection, as far
/// as the settings require them. Thread-safe.
class Authenticator {
 public:
  /// Loads the tokens, or returns the error in the settings or the file. If the
  /// file changes later and is not valid, the previous tokens stay in use and
  /// the error is logged. `certificates` is null if clients need no
  /// certificate. `certificates` and `log` must outlive the result.
  static Result<std::unique_ptr<Authenticator>> Start(
      const SecurityConfig& config, const ClientCertificates* certificates,
      spdlog::logger& log);

  /// Returns the caller of an RPC. UNAUTHENTICATED with the reason
  /// TOKEN_MISSING or TOKEN_UNKNOWN, or as ClientCertificates::Check().
  /// PERMISSION_DENIED with the reason CLIENT_NOT_ALLOWED if no name of the
  /// certificate may call. Callers over a Unix socket need no certificate: the
  /// permissions of the socket have admitted them.
  Result<Caller> Authenticate(const grpc::ServerContextBase& context) const;

  /// Returns whether callers need a token or a certificate.
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
  mutable Mutex mutex_;
  TokenSet tokens_ TOPK_GUARDED_BY(mutex_);
  std::unique_ptr<WatchedFiles> tokens_file_;  // null: none are needed
};

}  // namespace topk
