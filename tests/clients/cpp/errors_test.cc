// Tests of the command's hints for errors as gRPC reports them.
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

class Hints : public ::topk::testing::Secured {
 protected:
  static void Expect(const ClientOptions& options, const std::string& hint) {
    const Status status = Ask(options);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(Advice(status, options), HasSubstr(hint)) << status.message;
  }
};

TEST_F(Hints, ForServersThatCannotBeReached) {
  ClientOptions options;
  options.max_attempts = 1;
  for (const auto& [target, hint] :
       {std::pair<std::string, const char*>{"127.0.0.1:1", "start topkd"},
        {"unix:" + File("no.socket"), "topkd --listen unix:"},
        {"no.such.host.invalid:1", "host name"}}) {
    options.target = target;
    Expect(options, hint);
    const Status status = Ask(options);
    EXPECT_TRUE(IsConnectFailure(status)) << status.message;
  }
}

TEST_F(Hints, ForTls) {
  const TestServer plain(PlainConfig());
  const TestServer tls(TlsConfig());
  const TestServer mutual(MutualConfig());
  Expect(PlainOptions(tls), "--tls-ca");
  Expect(TlsOptions(plain), "leave out the --tls flags");
  Expect(TlsOptions(mutual), "--tls-cert FILE");
  ClientOptions options = TlsOptions(tls);
  options.tls_server_name = "topk.example";
  Expect(options, "--tls-server-name");
  options = TlsOptions(tls);
  options.tls_ca = File("other.pem");
  Write("other.pem", Authority().certificate());
  Expect(options, "--tls-ca FILE");
}

}  // namespace
}  // namespace topk::cli
