// The command's advice for errors as gRPC actually reports them.
#include "client/cli/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/secured.h"

namespace topk::cli {
namespace {

using ::testing::HasSubstr;
using ::topk::testing::Authority;
using ::topk::testing::TestServer;

class Advised : public ::topk::testing::Secured {
 protected:
  // The advice on a call with these options, which fails.
  static std::string Of(const ClientOptions& options) {
    const Status status = Ask(options);
    EXPECT_FALSE(status.ok());
    return Advice(status, options);
  }
};

TEST_F(Advised, OfAnUnreachableServer) {
  ClientOptions options;
  options.max_attempts = 1;
  options.target = "127.0.0.1:1";
  EXPECT_THAT(Of(options), HasSubstr("start topkd"));
  options.target = "unix:" + File("no.socket");
  EXPECT_THAT(Of(options), HasSubstr("topkd --listen unix:"));
  options.target = "no.such.host.invalid:1";
  EXPECT_THAT(Of(options), HasSubstr("host name"));
}

TEST_F(Advised, CallsWithoutAConnectionAreNotLost) {
  ClientOptions options;
  options.max_attempts = 1;
  for (const std::string& target :
       {std::string("127.0.0.1:1"), "unix:" + File("no.socket"),
        std::string("no.such.host.invalid:1")}) {
    options.target = target;
    const Status status = Ask(options);
    EXPECT_TRUE(IsConnectFailure(status)) << status.message;
  }
}

TEST_F(Advised, OfPlaintextToATlsServer) {
  const TestServer server(TlsConfig());
  EXPECT_THAT(Of(PlainOptions(server)), HasSubstr("--tls-ca"));
}

TEST_F(Advised, OfTlsToAPlaintextServer) {
  const TestServer server(PlainConfig());
  EXPECT_THAT(Of(TlsOptions(server)), HasSubstr("leave out the --tls flags"));
}

TEST_F(Advised, OfAnUnknownAuthority) {
  const TestServer server(TlsConfig());
  Write("other.pem", Authority().certificate());
  ClientOptions options = TlsOptions(server);
  options.tls_ca = File("other.pem");
  EXPECT_THAT(Of(options), HasSubstr("--tls-ca FILE"));
}

TEST_F(Advised, OfAnotherServerName) {
  const TestServer server(TlsConfig());
  ClientOptions options = TlsOptions(server);
  options.tls_server_name = "topk.example";
  EXPECT_THAT(Of(options), HasSubstr("--tls-server-name"));
}

TEST_F(Advised, OfAMissingClientCertificate) {
  const TestServer server(MutualConfig());
  EXPECT_THAT(Of(TlsOptions(server)), HasSubstr("--tls-cert FILE"));
}

TEST_F(Advised, OfAMissingOrInvalidToken) {
  ServerConfig config = PlainConfig();
  config.security.auth_tokens_file = File("tokens");
  const TestServer server(config);
  ClientOptions options = PlainOptions(server);
  EXPECT_THAT(Of(options), HasSubstr("--token-file FILE"));
  options.token_file = File("stranger");
  EXPECT_THAT(Of(options), HasSubstr(File("stranger")));
}

TEST_F(Advised, NotOfErrorsWithAReason) {
  EXPECT_EQ(Advice({Code::kUnimplemented, "VERSION", "spec.version", "no"}, {}),
            "");
  EXPECT_NE(Advice({Code::kUnimplemented, "", "", "no"}, {}), "");
  EXPECT_EQ(Advice({Code::kInvalidArgument, "", "", "no"}, {}), "");
}

}  // namespace
}  // namespace topk::cli
