// Authenticates and authorizes callers.
#pragma once

#include <grpcpp/server_context.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

#include "core/common/mutex.h"
#include "server/security/client_certificates.h"
#include "server/security/client_names.h"
#include "server/security/token_set.h"
#include "server/security/watched_files.h"
#include "topk/status.h"

namespace topk {

/// Settings for TLS, authentication, authorization and rate limits. Each is set
/// by the flag of the same name.
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
  /// The name of the token's owner. Without a token, a name in the caller's
  /// certificate: an allowed name, else the first alternative name, else the
  /// common name. Without a certificate, the IP address or "unix".
  std::string name;
  /// Identifies the caller for limits: "token:NAME", "cert:NAME",
  /// "addr:ADDRESS" or "unix". All addresses of an IPv6 network share a key.
  std::string key;
  /// The caller's address as gRPC writes it, e.g. "ipv4:192.0.2.1:50000".
  std::string peer = {};
  /// True if the call came over a Unix socket or from a loopback address, i.e.
  /// if the caller (or its proxy) is on this machine.
  bool is_local = false;
  /// True if a token or certificate proves the caller's name.
  bool authenticated = false;
};

/// Checks the token of each call and the certificate of its connection, as the
/// settings require. Thread-safe.
class Authenticator {
 public:
  /// Loads the tokens file. Returns an error if the settings or the file are
  /// invalid. If the file becomes invalid later, logs the error and keeps the
  /// previous tokens. `certificates` is null if clients need no certificate.
  /// `certificates` and `log` must outlive the result.
  static Result<std::unique_ptr<Authenticator>> Start(
      const SecurityConfig& config, const ClientCertificates* certificates,
      spdlog::logger& log);

  /// Returns the caller of an RPC. Returns UNAUTHENTICATED with reason
  /// TOKEN_MISSING or TOKEN_UNKNOWN, PERMISSION_DENIED with reason
  /// CLIENT_NOT_ALLOWED if no name in the certificate is allowed, and the
  /// errors of ClientCertificates::Check(). Callers over a Unix socket need no
  /// certificate, because file permissions protect the socket.
  Result<Caller> Authenticate(const grpc::ServerContextBase& context) const;

  /// The tokens file, or null if callers need no token.
  const WatchedFiles* tokens_file() const { return tokens_file_.get(); }

  /// Returns true if callers need a token or a certificate.
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
  const ClientCertificates* const certificates_;  // null if not required
  AllowedNames allowed_;
  mutable Mutex mutex_;
  TokenSet tokens_ TOPK_GUARDED_BY(mutex_);
  std::unique_ptr<WatchedFiles> tokens_file_;  // null if not required
};

}  // namespace topk
