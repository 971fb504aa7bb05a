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
            "PEM file with the server's certificate and its intermediate "
            "certificates. Enables TLS 1.2 and 1.3 on all --listen addresses "
            "except unix: sockets. The server reloads this file and those of "
            "the other TLS flags when they change, and logs and ignores "
            "invalid ones");
  table.Row(
      "tls-key", config.tls_key,
      "PEM file with the certificate's private key, without a passphrase");
  table.Row("tls-client-ca", config.tls_client_ca,
            "PEM file with certificate authorities. Enables mutual TLS: each "
            "client needs a certificate that one of them has signed");
  table.Row("tls-client-crl", config.tls_client_crl,
            "PEM file with a certificate revocation list of each authority in "
            "--tls-client-ca. Calls with a revoked certificate are rejected, "
            "on open connections too; so are those whose authority has no "
            "current list");
  table
      .Row("tls-allowed-san", config.tls_allowed_san,
           "Subject alternative names (DNS name, URI, e-mail or IP address) "
           "of which a client's certificate needs one. A leading *. matches "
           "any first label of a DNS name. Repeat the flag or separate names "
           "with commas. Without it every verified certificate is accepted")
      ->delimiter(',')
      ->default_str("")
      ->check(CLI::Validator(CheckSan, "NAME"));
  table.Row(
      "auth-tokens-file", config.auth_tokens_file,
      "File of tokens, of which each call except health checks then needs "
      "one. Callers send it in the header \"authorization: Bearer "
      "TOKEN\". Each line is name:SHA-256 as printed by topkd "
      "hash-token, or a comment after #. The server reloads the file "
      "when it changes, and logs and ignores an invalid one");
  table
      .Row("client-ipv6-prefix", config.client_ipv6_prefix,
           "Number of leading bits of an IPv6 address that identify a client "
           "without token and certificate. A host commonly owns a whole /64 "
           "network")
      ->transform(Whole(1, 128));
  table
      .Row("client-requests-per-second", config.client_requests_per_second,
           "Max rate of requests of one client; 0 for no limit. Bursts last "
           "one second. A client is identified by its token, else its "
           "certificate, else its address")
      ->transform(Rate());
  table
      .Row("client-bytes-per-second", config.client_bytes_per_second,
           "Max rate of request bytes of one client; 0 for no limit. Bursts "
           "last one second. A request above a full burst is admitted "
           "after a second without requests and delays the next ones. "
           "StreamTopK is read at this rate")
      ->transform(Rate());
}

void AddHealthcheckTlsFlags(CLI::App& command, HealthcheckConfig& config) {
  command
      .add_flag("--tls", config.tls,
                "Use TLS, with the system's certificate authorities unless "
                "--tls-ca is given")
      ->envname("TOPKD_HEALTHCHECK_TLS");
  command
      .add_option("--tls-ca", config.tls_ca,
                  "PEM file with the server's certificate authorities; implies "
                  "--tls")
      ->envname("TOPKD_HEALTHCHECK_TLS_CA");
  command
      .add_option("--tls-cert", config.tls_cert,
                  "PEM file with the client's certificate, for mutual TLS")
      ->envname("TOPKD_HEALTHCHECK_TLS_CERT");
  command
      .add_option("--tls-key", config.tls_key,
                  "PEM file with that certificate's private key")
      ->envname("TOPKD_HEALTHCHECK_TLS_KEY");
  command
      .add_option("--tls-server-name", config.tls_server_name,
                  "Expected name in the server's certificate; default: the "
                  "host of the target")
      ->envname("TOPKD_HEALTHCHECK_TLS_SERVER_NAME");
}

}  // namespace topk
