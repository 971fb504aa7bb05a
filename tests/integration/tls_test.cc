// The server's TLS settings, and which clients they accept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>

#include "tests/integration/secured.h"
#include "tests/integration/topkd.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tls = Secured;
using MutualTls = Secured;

TEST_F(Tls, LogsFewLinesAboutRequestsWithoutTls) {
  constexpr int kRequests = 40;
  Topkd topkd(
      {"--tls-cert", File("server.pem"), "--tls-key", File("server.key")});
  for (int i = 0; i < kRequests; ++i) HttpGet(topkd.target(), "/");
  EXPECT_TRUE(topkd.HasLogged("Handshak"));
  EXPECT_EQ(topkd.process().Stop(), 0);
  std::istringstream lines(topkd.process().Output());
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    errors += line.find(" error ") != std::string::npos;
  }
  EXPECT_LT(errors, kRequests / 2) << topkd.process().Output();
}

TEST_F(Tls, ClientsCheckTheServersName) {
  Put("server", authority_.Issue({"topk", "DNS:topk.example"}));
  const TestServer server(TlsConfig());
  ClientOptions options = TlsOptions(server);
  EXPECT_EQ(Ask(options).code, Code::kUnavailable);
  options.tls_server_name = "topk.example";
  EXPECT_EQ(Ask(options).message, "");
}

TEST_F(Tls, CoversAllPortsButNoUnixSocket) {
  ServerConfig config = MutualConfig();
  config.listen = {"127.0.0.1:0", "localhost:0", "unix:" + File("socket")};
  config.security.tls_allowed_san = {"nobody.example"};
  TestServer server(config);
  ClientOptions options = MutualOptions(server);
  for (const std::string& address : server.server().addresses()) {
    options.target = address;
    if (address.starts_with("unix:")) {
      EXPECT_EQ(Ask(options).message,
                StrCat("tls: ", Quote(address),
                       " is a Unix socket, which has no TLS"));
      EXPECT_EQ(Ask({.target = address}).message, "");
    } else {
      EXPECT_EQ(Ask(options).reason, "CLIENT_NOT_ALLOWED") << address;
    }
  }
}

TEST_F(MutualTls, NeedsAnAllowedName) {
  for (const char* allowed :
       {"alice.example.org", "*.example.org", "spiffe://x/alice"}) {
    ServerConfig config = MutualConfig();
    config.security.tls_allowed_san = {"nobody.example", allowed};
    const TestServer server(config);
    EXPECT_EQ(Ask(MutualOptions(server)).message, "") << allowed;
  }
  ServerConfig config = MutualConfig();
  config.security.tls_allowed_san = {"bob.example.org", "*.example.com"};
  const TestServer server(config);
  const Status status = Ask(MutualOptions(server));
  EXPECT_EQ(status.code, Code::kPermissionDenied);
  EXPECT_EQ(status.reason, "CLIENT_NOT_ALLOWED");
  EXPECT_THAT(status.message, AllOf(HasSubstr("DNS:alice.example.org"),
                                    HasSubstr("URI:spiffe://x/alice")));
  // Health checks do not need an allowed name.
  EXPECT_TRUE(Client(MutualOptions(server)).IsServing("").ok());
}

TEST_F(MutualTls, IgnoresCommonNames) {
  Put("client", authority_.Issue({"alice.example.org", ""}));
  ServerConfig config = MutualConfig();
  {
    const TestServer server(config);
    EXPECT_EQ(Ask(MutualOptions(server)).message, "");
  }
  config.security.tls_allowed_san = {"alice.example.org"};
  const TestServer server(config);
  EXPECT_EQ(Ask(MutualOptions(server)).message,
            "the client's certificate has no name");
}

TEST_F(Tls, InvalidFilesAreStartErrors) {
  using Config = SecurityConfig;
  const std::string ca = File("ca.pem");
  const std::string key = File("server.key");
  const std::pair<std::function<void(Config&)>, std::string> cases[] = {
      {[](Config&) {}, ""},
      {[](Config& c) { c.tls_cert = ""; },
       "TLS needs --tls-cert and --tls-key; --tls-cert is not given"},
      {[](Config& c) { c.tls_key = ""; },
       "TLS needs --tls-cert and --tls-key; --tls-key is not given"},
      {[](Config& c) { c.tls_key = "/nonexistent"; },
       "--tls-key: cannot read /nonexistent: No such file or directory"},
      {[&](Config& c) { c.tls_client_ca = key; },
       StrCat("--tls-client-ca: ", key, " has no certificate in PEM form")},
      {[&](Config& c) { c.tls_client_crl = ca; },
       StrCat("--tls-client-crl: ", ca, " has no revocation list in PEM form")},
      {[](Config& c) {
         c.tls_client_ca = "";
         c.tls_allowed_san = {"a.example"};
       },
       "--tls-allowed-san needs --tls-client-ca; without it, the server asks "
       "for no client certificates"},
      {[&](Config& c) {
         c.tls_client_ca = "";
         c.tls_client_crl = ca;
       },
       "--tls-client-crl needs --tls-client-ca; without it, the server asks "
       "for no client certificates"},
      {[&](Config& c) { c.auth_tokens_file = ca; },
       StrCat("--auth-tokens-file: ", ca,
              ": line 1: not name:SHA-256 with 64 hexadecimal digits; use "
              "topkd hash-token to print a line")},
  };
  for (const auto& [change, error] : cases) {
    ServerConfig config = MutualConfig();
    config.listen = {"127.0.0.1:0"};
    change(config.security);
    const auto log = MakeLoggerTo(std::make_shared<LogSink>(), "info", "text");
    const auto server = Server::Start(config, *log);
    EXPECT_EQ(server.ok() ? "" : server.status().message, error);
  }
}

}  // namespace
}  // namespace topk::testing
