// Tests the client's checks: of responses and targets, with the same cases as
// the Python client, and of certificates and tokens before a client connects;
// and the pauses before retries. faulty_servers_test.py has the errors that are
// retried.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/check_response.h"
#include "client/credentials.h"
#include "client/retry.h"
#include "core/base/text.h"
#include "core/common/target.h"
#include "tests/integration/secured.h"
#include "tests/support/client_calls.h"

namespace topk {
namespace {

using google::protobuf::util::JsonStringToMessage;
using nlohmann::json;
using testing::ComputeMany;
using testing::ComputeStream;
using testing::ComputeUnary;
using ::testing::HasSubstr;

const json& Cases() {
  static const json cases = json::parse(
      std::ifstream(TOPK_SOURCE_DIR "/tests/clients/cpp/answer_cases.json"));
  return cases;
}

template <class Message>
Message Parse(const json& text) {
  Message message;
  const auto status = JsonStringToMessage(text.dump(), &message);
  EXPECT_TRUE(status.ok()) << status.ToString() << text;
  return message;
}

v1::TopKRequest RequestOf(const json& pair) {
  return Parse<v1::TopKRequest>(pair["request"]);
}

TEST(CheckResponse, AcceptsMatchingResponses) {
  for (const auto& [name, pair] : Cases()["requests"].items()) {
    const Status status = CheckResponse(
        RequestOf(pair), Parse<v1::TopKResponse>(pair["response"]));
    EXPECT_TRUE(status.ok()) << name << ": " << status.message;
  }
}

TEST(CheckResponse, RejectsOtherResponses) {
  for (const json& wrong : Cases()["wrong"]) {
    const std::string name =
        StrCat(std::string(wrong["of"]), ": ", std::string(wrong["name"]));
    const json& pair = Cases()["requests"][std::string(wrong["of"])];
    json response = pair["response"];
    response.merge_patch(wrong["change"]);
    const Status status =
        CheckResponse(RequestOf(pair), Parse<v1::TopKResponse>(response));
    EXPECT_EQ(status.code, Code::kInternal) << name;
    EXPECT_EQ(status.reason, "BAD_ANSWER") << name;
    EXPECT_EQ(status.field, std::string(wrong["field"]))
        << name << ": " << status.message;
  }
}

TEST(Attempts, PausesAsThePythonClientDoes) {
  using std::chrono::milliseconds;
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::hours(100);
  for (const json& c : Cases()["pauses"]) {
    Retry retry{.attempts = 5};
    if (c.contains("multiplier")) {
      retry.initial = milliseconds(c["initial_ms"].get<int64_t>());
      retry.maximum = milliseconds(c["maximum_ms"].get<int64_t>());
      retry.multiplier = c["multiplier"];
    }
    Attempts attempts(retry, deadline);
    Status status{Code::kUnavailable, "", "", ""};
    for (size_t i = 0; i < 4; ++i) {
      status.retry_after = milliseconds(c["told_ms"][i].get<int64_t>());
      const milliseconds expected(c["pauses_ms"][i].get<int64_t>());
      const auto begin = std::chrono::system_clock::now();
      const auto pause = attempts.Next(status, false).value() - begin;
      EXPECT_GE(pause, expected) << c["name"];
      EXPECT_LT(pause, expected + milliseconds(90)) << c["name"];
    }
    EXPECT_FALSE(attempts.Next(status, false)) << "none is left";
  }
}

TEST(Attempts, EndWithoutAPolicyOrTime) {
  Status status{Code::kUnavailable, "", "", ""};
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::hours(1);
  EXPECT_FALSE(Attempts(std::nullopt, deadline).Next(status, false));
  constexpr auto kForever = std::chrono::milliseconds::max();
  EXPECT_FALSE(
      Attempts(Retry{.initial = kForever, .maximum = kForever}, deadline)
          .Next(status, false));
}

TEST(Targets, AreCheckedAsByThePythonClient) {
  const json& targets = Cases()["targets"];
  for (const std::string target : targets["no port"]) {
    EXPECT_THAT(TargetError(target),
                HasSubstr("is not host:port with a port of 1 .. "))
        << target;
  }
  for (const std::string target : targets["no list"]) {
    EXPECT_THAT(TargetError(target), HasSubstr("is not a list of")) << target;
  }
  EXPECT_NE(TargetError("a\u202e:1"), "");
  EXPECT_THAT(TargetError("a\x1b[2J:1x" + std::string(100'000, 'y')),
              ::testing::MatchesRegex(".a[?].2J:1xyy.{,150}"));
  for (const std::string target : targets["valid"]) {
    EXPECT_EQ(TargetError(target), "") << target;
  }
  for (const std::string target : targets["local"]) {
    EXPECT_TRUE(IsLocalTarget(target)) << target;
  }
  for (const std::string target : targets["remote"]) {
    EXPECT_FALSE(IsLocalTarget(target)) << target;
  }
}

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
