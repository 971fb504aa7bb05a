// The server's TLS settings, and which clients they accept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::string StartError(ServerConfig config) {
  config.listen = {"127.0.0.1:0"};
  const auto sink = std::make_shared<LogSink>();
  const auto log = MakeLoggerTo(sink, "info", "text");
  const auto server = Server::Start(config, *log);
  return server.ok() ? "" : server.status().message;
}

TEST_F(Tls, InvalidFilesAreStartErrors) {
  const auto with = [this](auto change) {
    ServerConfig config = MutualConfig();
    change(config.security);
    return StartError(config);
  };
  using Config = SecurityConfig;
  EXPECT_EQ(with([](Config&) {}), "");
  EXPECT_EQ(with([](Config& c) { c.tls_cert = ""; }),
            "TLS needs --tls-cert and --tls-key; --tls-cert is not given");
  EXPECT_EQ(with([](Config& c) { c.tls_key = ""; }),
            "TLS needs --tls-cert and --tls-key; --tls-key is not given");
  EXPECT_EQ(with([](Config& c) { c.tls_key = "/nonexistent"; }),
            "--tls-key: cannot read /nonexistent: No such file or directory");
  EXPECT_EQ(with([&](Config& c) { c.tls_client_ca = c.tls_key; }),
            StrCat("--tls-client-ca: ", File("server.key"),
                   " has no certificate in PEM form"));
  EXPECT_EQ(with([](Config& c) {
              c.tls_client_ca = "";
              c.tls_allowed_san = {"a.example"};
            }),
            "--tls-allowed-san needs --tls-client-ca; without it, the server "
            "asks for no client certificates");
  EXPECT_EQ(
      with([&](Config& c) { c.auth_tokens_file = File("ca.pem"); }),
      StrCat("--auth-tokens-file: ", File("ca.pem"),
             ": line 1: not name:SHA-256 with 64 hexadecimal digits; use topkd "
             "hash-token to print a line"));
  EXPECT_EQ(with([&](Config& c) {
              c.tls_client_ca = "";
              c.tls_client_crl = File("ca.pem");
            }),
            "--tls-client-crl needs --tls-client-ca; without it, the server "
            "asks for no client certificates");
  EXPECT_EQ(with([&](Config& c) { c.tls_client_crl = File("ca.pem"); }),
            StrCat("--tls-client-crl: ", File("ca.pem"),
                   " has no revocation list in PEM form"));
}

}  // namespace
}  // namespace topk::testing
