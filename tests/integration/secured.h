// Servers with certificates and tokens, and their clients.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/text.h"
#include "core/common/bearer_token.h"
#include "tests/integration/subprocess.h"
#include "tests/support/authority.h"
#include "tests/support/client_calls.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {

/// Tokens known to a server with a tokens file.
inline constexpr char kAliceToken[] = "token-of-alice-1";
inline constexpr char kBobToken[] = "token-of-bob-001";

/// A test with a folder for the files of servers and clients.
class Secured : public ::testing::Test {
 protected:
  Secured() {
    Put("server", authority_.Issue());
    Put("client", authority_.Issue(
                      {"alice", "DNS:alice.example.org,URI:spiffe://x/alice"}));
    Write("ca.pem", authority_.certificate());
    Write("tokens", StrCat(Line("alice", kAliceToken), Line("bob", kBobToken)));
    Write("alice", kAliceToken);
    Write("bob", kBobToken);
    Write("stranger", "token-of-a-stranger");
  }

  std::string File(const std::string& name) const { return folder_.File(name); }
  void Write(const std::string& name, const std::string& text) const {
    WriteText(File(name), text);
  }
  void Put(const std::string& name, const Identity& identity) const {
    Write(name + ".pem", identity.certificate);
    Write(name + ".key", identity.key);
  }
  static std::string Line(const std::string& name, std::string_view token) {
    return StrCat(name, ":", ToHex(HashToken(token)), "\n");
  }

  ServerConfig TlsConfig() const {
    ServerConfig config;
    config.security.tls_cert = File("server.pem");
    config.security.tls_key = File("server.key");
    return config;
  }
  ServerConfig MutualConfig() const {
    ServerConfig config = TlsConfig();
    config.security.tls_client_ca = File("ca.pem");
    return config;
  }

  // Options of a client that trusts the authority but has no certificate.
  ClientOptions TlsOptions(const TestServer& server) const {
    ClientOptions options = PlainOptions(server);
    options.tls_ca = File("ca.pem");
    return options;
  }
  ClientOptions MutualOptions(const TestServer& server) const {
    ClientOptions options = TlsOptions(server);
    options.tls_cert = File("client.pem");
    options.tls_key = File("client.key");
    return options;
  }
  static ClientOptions PlainOptions(const TestServer& server) {
    return {.target = server.target(),
            .timeout = std::chrono::seconds(20),
            .retry = std::nullopt,
            .channel_arguments = OwnConnection()};
  }

  // Calls ComputeTopK for one element.
  static Status Ask(const ClientOptions& options) {
    const auto answer = ComputeUnary(Client(options), OnnxRequest({1, 2}, 1));
    return answer.ok() ? Status{} : answer.status();
  }
  // Sends `token`, read from a file.
  Status Ask(ClientOptions options, const std::string& token) const {
    options.token_file = File(token);
    return Ask(options);
  }

  const TemporaryFolder folder_;
  const Authority authority_;
};

}  // namespace topk::testing
