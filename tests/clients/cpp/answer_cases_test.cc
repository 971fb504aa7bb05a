// Tests the checks of responses and targets, retries and merging with the
// same cases as the Python client.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "client/check_response.h"
#include "client/credentials.h"
#include "client/retry.h"
#include "core/base/text.h"
#include "core/common/target.h"
#include "topk/merge.h"

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

Status StatusOf(const json& c) {
  Status status{Code::kOk, c["reason"], "", c.value("message", "")};
  for (int i = 0; i < 17; ++i) {
    const auto code = static_cast<Code>(i);
    if (CodeName(code) == std::string(c["code"])) status.code = code;
  }
  return status;
}

TEST(Attempts, RetriesAsThePythonClientDoes) {
  for (const json& c : Cases()["retries"]) {
    Status status = StatusOf(c);
    status.retry_after = std::chrono::milliseconds(c.value("retry_ms", 0));
    Attempts attempts(Retry{.attempts = 2}, std::chrono::system_clock::now() +
                                                std::chrono::minutes(1));
    EXPECT_EQ(attempts.Next(status, c["begun"]).has_value(), bool{c["retried"]})
        << c["name"];
    if (!c["retried"]) continue;
    EXPECT_FALSE(attempts.Next(status, c["begun"])) << "none is left";
  }
}

TEST(Attempts, PausesAsThePythonClientDoes) {
  using std::chrono::milliseconds;
  for (const json& c : Cases()["pauses"]) {
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::minutes(1);
    Attempts attempts(Retry{.attempts = 5}, deadline);
    for (size_t i = 0; i < c["told_ms"].size(); ++i) {
      Status status{Code::kUnavailable, "", "", ""};
      status.retry_after = milliseconds(c["told_ms"][i].get<int64_t>());
      const milliseconds expected(c["pauses_ms"][i].get<int64_t>());
      const auto begin = std::chrono::system_clock::now();
      const auto pause = attempts.Next(status, false).value() - begin;
      EXPECT_GE(pause, expected) << c["name"];
      EXPECT_LT(pause, expected + milliseconds(90)) << c["name"];
    }
  }
}

// Returns the pause before the next attempt, in seconds.
std::optional<double> NextPause(Attempts& attempts,
                                std::chrono::milliseconds told = {}) {
  Status status{Code::kUnavailable, "", "", "", told};
  const auto then = attempts.Next(status, /*begun=*/false);
  if (!then.has_value()) return {};
  return std::chrono::duration<double>(*then - std::chrono::system_clock::now())
      .count();
}

TEST(Attempts, FollowThePolicy) {
  using namespace std::chrono_literals;
  Attempts attempts(
      Retry{.attempts = 6, .initial = 1min, .maximum = 3h, .multiplier = 60},
      std::chrono::system_clock::now() + 100h);
  for (const double expected : {60, 3600, 3 * 3600, 3 * 3600}) {
    EXPECT_NEAR(NextPause(attempts).value(), expected, 50);
  }
  EXPECT_NEAR(NextPause(attempts, 5h).value(), 5 * 3600, 50);
  EXPECT_FALSE(NextPause(attempts).has_value()) << "none is left";
  Attempts once(std::nullopt, std::chrono::system_clock::now() + 1h);
  EXPECT_FALSE(NextPause(once).has_value());
  constexpr auto kForever = std::chrono::milliseconds::max();
  Attempts late(Retry{.initial = kForever, .maximum = kForever},
                std::chrono::system_clock::now() + 1h);
  EXPECT_FALSE(NextPause(late).has_value());
}

TEST(Targets, AreCheckedAsByThePythonClient) {
  const json& targets = Cases()["targets"];
  for (const auto& [list, error] :
       {std::pair("no port", "is not host:port with a port of 1 .. "),
        std::pair("no list", "is not a list of IPv4 addresses")}) {
    for (const std::string target : targets[list]) {
      EXPECT_THAT(TargetError(target), ::testing::HasSubstr(error)) << target;
    }
  }
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

template <class T>
v1::Tensor TensorOf(v1::DataType type, const json& numbers) {
  v1::Tensor tensor;
  tensor.set_data_type(type);
  tensor.add_shape(static_cast<int64_t>(numbers.size()));
  for (const T number : numbers.get<std::vector<T>>()) {
    tensor.mutable_data()->append(reinterpret_cast<const char*>(&number),
                                  sizeof(number));
  }
  return tensor;
}

v1::TopKResponse ResponseOf(const json& part) {
  v1::TopKResponse response;
  *response.mutable_values() =
      TensorOf<int32_t>(v1::DATA_TYPE_I32, part["values"]);
  *response.mutable_indices() =
      TensorOf<int64_t>(v1::DATA_TYPE_I64, part["indices"]);
  return response;
}

TEST(Merge, MergesAsThePythonClientDoes) {
  for (const json& c : Cases()["merges"]) {
    std::vector<PartialResponse> partials;
    for (const json& part : c["partials"]) {
      partials.push_back(
          {.response = ResponseOf(part),
           .k = c["k"],
           .direction =
               c["largest"] ? Direction::kLargest : Direction::kSmallest,
           .order = c["order"] == "index" ? Order::kIndex : Order::kValue});
    }
    const Result<PartialResponse> merged = Merge(partials);
    ASSERT_EQ(merged.ok(), !c["merged"].is_null()) << c["name"];
    if (!merged.ok()) continue;
    EXPECT_EQ(merged->response.SerializeAsString(),
              ResponseOf(c["merged"]).SerializeAsString())
        << c["name"];
  }
}

TEST(Merge, RejectsMissingAndStridedOutputs) {
  PartialResponse answer;
  answer.k = 1;
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().field,
            "partials[0].response.values");
  v1::Tensor& values = *answer.response.mutable_values();
  values.set_data_type(v1::DATA_TYPE_U8);
  values.add_shape(1);
  values.set_data("7");
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "OUTPUT_MISSING");
  v1::Tensor& indices = *answer.response.mutable_indices();
  indices = values;
  indices.set_data_type(v1::DATA_TYPE_U32);
  indices.set_data("\1\0\0\0", 4);
  EXPECT_TRUE(Merge(std::span(&answer, 1)).ok());
  indices.add_shape(1);
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "SHAPES_DIFFER");
  indices.mutable_shape()->RemoveLast();
  values.add_strides(2);
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "OUTPUT_STRIDED");
  values.clear_strides();
  values.mutable_shared_memory()->set_name("/topk");
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason,
            "OUTPUT_IN_SHARED_MEMORY");
}

}  // namespace
}  // namespace topk
