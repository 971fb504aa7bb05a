// The settings of TLS, authentication, authorization and rate limits.
#pragma once

#include <string>
#include <vector>

namespace topk {

/// The settings of a server's security; see the flags of their names.
struct SecurityConfig {
  /// PEM files; "" = no TLS.
  std::string tls_cert;
  std::string tls_key;
  /// A PEM file; "" = clients need no certificate.
  std::string tls_client_ca;
  /// A PEM file of revocation lists; "" = nothing is revoked.
  std::string tls_client_crl;
  /// The names of which a client's certificate needs one; none = any.
  std::vector<std::string> tls_allowed_san;
  /// Lines of name:sha256; "" = no tokens.
  std::string auth_tokens_file;
  /// The first bits of an IPv6 address that make one caller, 1 to 128.
  int client_ipv6_prefix = 64;
  /// For each caller; 0 = no limit.
  double client_requests_per_second = 0;
  double client_bytes_per_second = 0;

  bool tls() const {
    return !tls_cert.empty() || !tls_key.empty() || !tls_client_ca.empty();
  }
};

}  // namespace topk
