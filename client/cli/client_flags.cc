#include <algorithm>
#include <chrono>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/number_flag.h"

namespace topk::cli {
namespace {

// Replaces the options of ClientOptions in a message by their flags, e.g.
// "tls_ca" by "--tls-ca".
std::string WithFlags(std::string message) {
  static const std::regex option(
      "(^|; |and |or |use )"
      "(target|metadata|tls(_[a-z]+)*|token(_[a-z]+)+)(?=[:, ])");
  std::string text;
  for (std::smatch found; std::regex_search(message, found, option);) {
    std::string flag = found[2];
    std::ranges::replace(flag, '_', '-');
    text += found.prefix().str() + found[1].str() + "--" + flag;
    message = found.suffix();
  }
  return text + message;
}

}  // namespace

void AddClientFlags(CLI::App& command, ClientOptions& client) {
  client.user_agent = "topk/" TOPK_VERSION;
  command
      .add_option("--target", client.target,
                  "Server: host:port, unix:path, dns:///name:port, or a "
                  "comma-separated list of IP addresses with ports")
      ->envname("TOPK_TARGET")
      ->capture_default_str();
  command
      .add_option_function<double>(
          "--timeout",
          [&client](double seconds) {
            client.timeout =
                std::chrono::milliseconds(std::llround(1e3 * seconds));
          },
          "Max duration of a call, in seconds")
      ->check(Number(0.001, 86400))
      ->default_str("60");
  command
      .add_option("--max-attempts", client.retry->attempts,
                  "Max attempts per call. A call is retried after "
                  "UNAVAILABLE, and after RESOURCE_EXHAUSTED if the server's "
                  "retry delay ends before the deadline; 1 disables retries")
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  const auto add = [&](const char* flag, std::string& value,
                       const char* variable, const char* text) {
    return command.add_option(flag, value, text)->envname(variable);
  };
  command
      .add_flag("--tls", client.tls,
                "Use TLS. Without --tls-ca, trust the authorities that this "
                "machine trusts. Implied by the other --tls flags")
      ->envname("TOPK_TLS");
  add("--tls-ca", client.tls_ca, "TOPK_TLS_CA",
      "PEM file with the authorities that may sign the server's certificate")
      ->type_name("FILE");
  add("--tls-cert", client.tls_cert, "TOPK_TLS_CERT",
      "PEM file with this client's certificate, for servers that require one")
      ->type_name("FILE");
  add("--tls-key", client.tls_key, "TOPK_TLS_KEY",
      "PEM file with the private key of --tls-cert, without a passphrase")
      ->type_name("FILE");
  add("--tls-server-name", client.tls_server_name, "TOPK_TLS_SERVER_NAME",
      "Name that the server's certificate must have; default: the host in "
      "--target. With TLS, required if --target is a list of addresses");
  add("--token-file", client.token_file, "TOPK_TOKEN_FILE",
      "File with a token to send with each call, as "
      "\"authorization: Bearer TOKEN\"")
      ->type_name("FILE");
  command
      .add_flag("--token-over-plaintext", client.token_over_plaintext,
                "Send the token to other machines even without TLS")
      ->envname("TOPK_TOKEN_OVER_PLAINTEXT");
  command
      .add_option_function<std::vector<std::string>>(
          "--metadata",
          [&client](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const size_t end = text.find('=');
              if (end == std::string::npos) {
                throw CLI::ValidationError("--metadata", "must be KEY=VALUE");
              }
              client.metadata.emplace_back(text.substr(0, end),
                                           text.substr(end + 1));
            }
          },
          "Metadata to send with each call. May be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

ExitCode CheckClientFlags(const ClientOptions& client) {
  Status status = Client::Check(client);
  if (status.ok()) return kOk;
  status.message = WithFlags(status.message);
  return ReportUsage(status);
}

}  // namespace topk::cli
