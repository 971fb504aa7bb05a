#include "server/config/security_flags.h"

#include "server/config/config_values.h"
#include "server/security/client_names.h"

namespace topk {
namespace {

std::string CheckSan(const std::string& name) {
  return CheckAllowedName(name).message;
}

}  // namespace

void AddSecurityFlags(ConfigTable& table, SecurityConfig& config) {
  table.Heading("Security");
  table.Row("tls-cert", config.tls_cert,
            "Serve TLS 1.2 and 1.3: a PEM file of the server's "
            "certificate and those between it and its authority. For "
            "all --listen addresses but unix: sockets, which stay plain "
            "text: their permissions guard them. When the files of these "
            "flags change, new connections have the new ones, without a "
            "restart; bad ones are logged and not used");
  table.Row("tls-key", config.tls_key,
            "A PEM file of the certificate's key, without a passphrase");
  table.Row("tls-client-ca", config.tls_client_ca,
            "Mutual TLS: a PEM file of authorities, by one of which each "
            "client's certificate must be signed");
  table.Row("tls-client-crl", config.tls_client_crl,
            "With --tls-client-ca: a PEM file of revocation lists, one of "
            "each authority. Calls with a certificate that one of them names "
            "are rejected, on open connections too; so are all of an "
            "authority whose list is missing or out of date");
  table
      .Row("tls-allowed-san", config.tls_allowed_san,
           "A DNS name, URI, e-mail or IP address that a client's "
           "certificate must have among its alternative names; *. "
           "stands for any first label of a DNS name. May be repeated, "
           "or be a list with commas: one of them is enough. Without "
           "it any verified certificate is")
      ->delimiter(',')
      ->check(CLI::Validator(CheckSan, "NAME"));
  table.Row("auth-tokens-file", config.auth_tokens_file,
            "Each call needs a header \"authorization: Bearer TOKEN\" "
            "with a token of this file, over whatever it comes, health "
            "checks excepted. Lines of name:SHA-256, as topkd hash-token "
            "prints them, and comments with #; read again when it "
            "changes, unless it has a mistake, which is logged");
  table
      .Row("client-ipv6-prefix", config.client_ipv6_prefix,
           "How many leading bits of an IPv6 address identify a caller that "
           "has neither a token nor a certificate: a host commonly owns all "
           "addresses of a /64 network")
      ->check(Whole(1, 128));
  table
      .Row("client-requests-per-second", config.client_requests_per_second,
           "How many requests each caller may make, as many at once as "
           "in a second; 0 for any number. Who the caller is, its token "
           "says, else its certificate, else its address")
      ->check(Rate())
      ->default_str("0");
  table
      .Row("client-bytes-per-second", config.client_bytes_per_second,
           "How many bytes of requests each caller may send; the same "
           "otherwise. A larger request is admitted after a second of "
           "rest, and keeps the next one waiting")
      ->check(Rate())
      ->default_str("0");
}

void AddHealthcheckTlsFlags(CLI::App& command, HealthcheckConfig& config) {
  command
      .add_flag("--tls", config.tls,
                "Ask over TLS, with this machine's authorities unless --tls-ca "
                "is given")
      ->envname("TOPKD_HEALTHCHECK_TLS");
  command
      .add_option("--tls-ca", config.tls_ca,
                  "Ask over TLS: a PEM file of the server's authorities")
      ->envname("TOPKD_HEALTHCHECK_TLS_CA");
  command
      .add_option("--tls-cert", config.tls_cert,
                  "A PEM file of a certificate for a server that wants one")
      ->envname("TOPKD_HEALTHCHECK_TLS_CERT");
  command
      .add_option("--tls-key", config.tls_key,
                  "A PEM file of that certificate's key")
      ->envname("TOPKD_HEALTHCHECK_TLS_KEY");
  command
      .add_option("--tls-server-name", config.tls_server_name,
                  "The name that the server's certificate must have; the "
                  "target's if not given")
      ->envname("TOPKD_HEALTHCHECK_TLS_SERVER_NAME");
}

}  // namespace topk
