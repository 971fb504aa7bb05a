// Tests of the errors for bad certificates and tokens, before a client
// connects.
#include "client/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/integration/secured.h"
#include "tests/support/client_calls.h"

namespace topk {
namespace {

using testing::ComputeMany;
using testing::ComputeStream;
using testing::ComputeUnary;

using ::testing::HasSubstr;

class ClientCheck : public testing::Secured {
 protected:
  ClientCheck() {
    Write("token", "0123456789abcdef\n");
    Write("short", "0123\n");
  }
};

TEST_F(ClientCheck, AcceptsValidOptions) {
  for (const ClientOptions& options : std::initializer_list<ClientOptions>{
           {},
           {.tls = true},
           {.tls_ca = File("ca.pem")},
           {.tls_cert = File("client.pem"), .tls_key = File("client.key")},
           {.target = "example.org:1",
           .tls_ca = File("ca.pem"),
           .token_file = File("token")},
           {.target = "127.0.0.1:1", .token_file = File("token")},
           {.target = "example.org:1",
           .token_file = File("token"),
           .token_over_plaintext = true}}) {
    EXPECT_EQ(Client::Check(options).message, "");
  }
  ClientOptions own = {.target = "example.org:1", .token_file = File("token")};
  own.credentials = grpc::SslCredentials({});
  EXPECT_EQ(Client::Check(own).message, "");
}

TEST_F(ClientCheck, NamesTheOptionTheFileAndTheRule) {
  const auto check = [](const ClientOptions& options) {
    return Client::Check(options).message;
  };
  EXPECT_EQ(check({.tls_ca = "/nonexistent"}),
            "tls_ca: cannot read /nonexistent: No such file or directory");
  EXPECT_EQ(check({.tls_cert = File("client.pem")}),
            "tls_cert and tls_key must be set together; tls_key is missing");
  EXPECT_EQ(check({.tls_key = File("client.key")}),
            "tls_cert and tls_key must be set together; tls_cert is missing");
  EXPECT_EQ(check({.target = "unix:/a", .tls = true}),
            "tls: \"unix:/a\" is a Unix socket, which has no TLS");
  EXPECT_EQ(check({.target = "10.0.0.1:1,10.0.0.2:1", .tls = true}),
            "tls_server_name: required with TLS if the target is a list of "
            "addresses");
  EXPECT_THAT(check({.target = "example.org:1", .token_file = File("token")}),
              HasSubstr("the token would go to \"example.org:1\" without TLS; "
                        "use tls, or token_over_plaintext"));
  EXPECT_EQ(check({.token_file = "/nonexistent"}),
            "token_file: cannot read /nonexistent: No such file or directory");
  EXPECT_THAT(check({.token_file = File("short")}),
              HasSubstr("a token of 4 characters is too short"));
}

TEST_F(ClientCheck, InvalidOptionsFailEachCall) {
  for (const ClientOptions& options :
       {ClientOptions{.tls_ca = "/nonexistent"},
        ClientOptions{.target = "localhost:115587"}}) {
    const Client client(options);
    const std::string what = Client::Check(options).message;
    EXPECT_NE(what, "");
    const v1::TopKRequest request;
    EXPECT_EQ(ComputeUnary(client, request).status().message, what);
    EXPECT_EQ(ComputeStream(client, request, {}).status().message, what);
    EXPECT_EQ(ComputeMany(client, {request})[0].status().message, what);
    EXPECT_EQ(client.GetCapabilities().status().message, what);
    EXPECT_EQ(client.IsServing("").status().message, what);
  }
}

TEST_F(ClientCheck, RereadsTokensAndKeepsTheLastValidOne) {
  EXPECT_EQ(TokenFile("").Header(), "");
  constexpr std::chrono::seconds kNow(0);
  TokenFile token(File("token"));
  EXPECT_EQ(token.Header(), "Bearer 0123456789abcdef");
  for (const std::string& bad :
       {std::string("bad token"), std::string(), std::string("\n"),
        std::string("012345678"), std::string("0123456789abcde\xe9"),
        std::string("0123456789abcdef\n0123456789abcdef\n"),
        std::string("0123456789abcdef\0", 17)}) {
    Write("token", bad);
    EXPECT_EQ(token.Header(kNow), "Bearer 0123456789abcdef") << bad;
    EXPECT_NE(Client::Check({.token_file = File("token")}).message, "") << bad;
  }
  Write("token", "fedcba9876543210");
  EXPECT_EQ(token.Header(), "Bearer 0123456789abcdef") << "reread too often";
  EXPECT_EQ(token.Header(kNow), "Bearer fedcba9876543210");
  EXPECT_EQ(std::remove(File("token").c_str()), 0);
  EXPECT_EQ(token.Header(kNow), "Bearer fedcba9876543210");
}

}  // namespace
}  // namespace topk
