// Tests the checks of responses and targets, and the pauses before retries,
// with the same cases as the Python client. faulty_servers_test.py has the
// errors that are retried.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/check_response.h"
#include "client/credentials.h"
#include "client/retry.h"
#include "core/base/text.h"
#include "core/common/target.h"

namespace topk {
namespace {

using google::protobuf::util::JsonStringToMessage;
using nlohmann::json;

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
                ::testing::HasSubstr("is not host:port with a port of 1 .. "))
        << target;
  }
  for (const std::string target : targets["no list"]) {
    EXPECT_THAT(TargetError(target), ::testing::HasSubstr("is not a list of"))
        << target;
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

}  // namespace
}  // namespace topk
