#include "client/cli/security_flags.h"

#include <string>

namespace topk::cli {
namespace {

// An empty value, e.g. that of an unset shell variable, must not turn off TLS.
CLI::Validator NotEmpty() {
  const auto check = [](const std::string& value) -> std::string {
    return value.empty() ? "the value is empty" : "";
  };
  return CLI::Validator(check, "");
}

}  // namespace

void AddSecurityFlags(CLI::App& command, ClientOptions& client) {
  command
      .add_flag("--tls", client.tls,
                "Use TLS, with this machine's authorities unless --tls-ca is "
                "given; the other --tls flags imply it")
      ->envname("TOPK_TLS");
  command
      .add_option("--tls-ca", client.tls_ca,
                  "A PEM file of the authorities, by one of which the server's "
                  "certificate must be signed")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->envname("TOPK_TLS_CA");
  command
      .add_option("--tls-cert", client.tls_cert,
                  "A PEM file of this client's certificate, for servers that "
                  "require one")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->envname("TOPK_TLS_CERT");
  command
      .add_option("--tls-key", client.tls_key,
                  "A PEM file of that certificate's key, without a passphrase")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->envname("TOPK_TLS_KEY");
  command
      .add_option("--tls-server-name", client.tls_server_name,
                  "The name that the server's certificate must have; the "
                  "target's if not given. A list of addresses needs it")
      ->check(NotEmpty())
      ->envname("TOPK_TLS_SERVER_NAME");
  command
      .add_option("--token-file", client.token_file,
                  "A file with a token, sent with every call as "
                  "\"authorization: Bearer TOKEN\"")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->envname("TOPK_TOKEN_FILE");
  command
      .add_flag("--token-over-plaintext", client.token_over_plaintext,
                "Send the token without TLS to other machines too")
      ->envname("TOPK_TOKEN_OVER_PLAINTEXT");
}

}  // namespace topk::cli
