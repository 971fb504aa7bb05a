// The requests and fields in the access log.
#include "server/calls/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "proto/library_versions.h"
#include "tests/integration/ask.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00-" + kTrace + "-00f067aa0ba902b7-01";

std::vector<json> Lines(const TestServer& server) {
  std::istringstream text(server.Log());
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

TEST(AccessLog, HasALinePerFailedCallWithoutData) {
  TestServer server;
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 4);
  request.set_request_id("the \"one\"\n");
  const std::string secret = "SECRETSECRET";
  request.mutable_tensor()->set_data(secret);
  EXPECT_FALSE(Ask(server, request).status.ok());
  const json line = json::parse(server.Log());
  EXPECT_EQ(line["request_id"], "the \"one\"\n");
  EXPECT_EQ(line["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["reason"], "K_EXCEEDS_DIMENSION");
  EXPECT_THAT(line["error"].get<std::string>(), HasSubstr("4"));
  EXPECT_FALSE(line.contains("compute_us") || line.contains("kernel"));
  EXPECT_EQ(line["request_bytes"], 12);
  EXPECT_EQ(line["peer"].get<std::string>().substr(0, 15), "ipv4:127.0.0.1:");
  EXPECT_EQ(server.Log().find(secret), std::string::npos);
}

TEST(AccessLog, HasAllFields) {
  for (const char* format : {"json", "text"}) {
    TestServer server({.access_log_sample = 1}, format);
    v1::TopKRequest request = OnnxRequest({3, 2, 1}, 2);
    request.set_request_id("mine");
    const CallResult asked = Ask(server, request);
    ASSERT_TRUE(asked.status.ok());
    const json line = json::parse(server.Log());
    const auto& execution = asked.response.execution();
    const json expected = {{"level", "info"},
                           {"msg", "call"},
                           {"method", "ComputeTopK"},
                           {"request_id", "mine"},
                           {"code", "OK"},
                           {"dialect", "onnx"},
                           {"version", 11},
                           {"dtype", "f32"},
                           {"elements", 3},
                           {"k", 2},
                           {"backend", execution.backend()},
                           {"kernel", execution.kernel()},
                           {"request_bytes", 12},
                           {"response_bytes", 24}};
    for (const auto& [name, value] : expected.items()) {
      EXPECT_EQ(line[name], value) << name;
    }
    int64_t stages = 0;
    for (const char* stage : {"queue", "decode", "compute", "encode"}) {
      const int64_t microseconds = line[stage + std::string("_us")];
      EXPECT_GE(microseconds, 0) << stage;
      stages += microseconds;
    }
    EXPECT_GE(line["total_us"], stages);
    EXPECT_EQ(line["trace_id"].get<std::string>().size(), 32u);
    EXPECT_EQ(line["span_id"].get<std::string>().size(), 16u);
    EXPECT_FALSE(line.contains("reason") || line.contains("error") ||
                 line.contains("principal"));
  }
}

TEST(AccessLog, SamplesSuccessfulRequestsAndLogsTracedOnes) {
  TestServer server({.access_log_sample = 0.5});
  for (int i = 0; i < 100; ++i) Ask(server, OnnxRequest({1, 2}, 1));
  const size_t sampled = Lines(server).size();
  EXPECT_GT(sampled, 0u);
  EXPECT_LT(sampled, 100u);
  for (int i = 0; i < 5; ++i) {
    Ask(server, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  }
  EXPECT_EQ(Lines(server).size(), sampled + 5);
  TestServer off;
  Ask(off, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  EXPECT_EQ(off.Log(), "");
}

TEST(AccessLog, WarnsOfSlowRequestsForAnySample) {
  ServerConfig config;
  config.slow_request_seconds = 1e-6;
  TestServer server(config);
  Ask(server, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  Ask(server, OnnxRequest({1, 2}, 3));
  const std::vector<json> lines = Lines(server);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["trace_id"], kTrace);
  EXPECT_EQ(lines[0]["code"], "OK");
  EXPECT_EQ(lines[1]["level"], "warning");
  EXPECT_EQ(lines[1]["code"], "INVALID_ARGUMENT");
  config.slow_request_seconds = 100;
  TestServer fast(config);
  Ask(fast, OnnxRequest({1, 2}, 1));
  EXPECT_EQ(fast.Log(), "");
}

TEST(AccessLog, TimesARequestOfAStreamFromItsMessage) {
  using std::chrono::steady_clock;
  TestServer server({.access_log_sample = 1});
  ManyCall stream(server);
  stream.Ask(OnnxRequest({1, 2}, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto start = steady_clock::now();
  stream.Ask(OnnxRequest({1, 2}, 1));
  ASSERT_TRUE(Eventually([&] { return Lines(server).size() == 2; }));
  EXPECT_LE(Lines(server)[1]["total_us"],
            std::chrono::duration_cast<std::chrono::microseconds>(
                steady_clock::now() - start)
                .count());
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(AccessLog, LimitsLinesOfInvalidRequests) {
  TestServer server;
  constexpr int kFlood = 2000;
  ManyCall stream(server);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kFlood; ++i) stream.Ask(OnnxRequest({1, 2}, 3));
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - start);
  const auto most =
      static_cast<size_t>(AccessLog::kLinesPerSecond * (took.count() + 2));
  EXPECT_LE(Lines(server).size(), most);
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(Trace, IsContinuedInTheLogAndTheResponse) {
  TestServer server({.access_log_sample = 1});
  const CallResult asked =
      Ask(server, OnnxRequest({1, 2}, 1),
          {{"traceparent", kParent}, {"tracestate", "rojo=1,congo=2"}});
  const json line = json::parse(server.Log());
  EXPECT_EQ(line["trace_id"], kTrace);
  EXPECT_EQ(line["parent_span_id"], "00f067aa0ba902b7");
  EXPECT_NE(line["span_id"], "00f067aa0ba902b7");
  EXPECT_EQ(line["tracestate"], "rojo=1,congo=2");
  EXPECT_EQ(asked.traceparent,
            "00-" + kTrace + "-" + line["span_id"].get<std::string>() + "-01");
}

TEST(Trace, IsContinuedByStreamsAndFailures) {
  TestServer server;
  grpc::ClientContext failing;
  failing.AddMetadata("traceparent", kParent);
  v1::TopKResponse none;
  EXPECT_FALSE(
      server.Stub()->ComputeTopK(&failing, OnnxRequest({1, 2}, 3), &none).ok());
  EXPECT_THAT(Returned(failing, "traceparent"), HasSubstr(kTrace));
  // Headers would commit the call, so that the client could not retry it.
  EXPECT_EQ(failing.GetServerInitialMetadata().count("traceparent"), 0u);
  ManyCall stream(server.Connect(), {{"traceparent", kParent}});
  for (int i = 0; i < 2; ++i) stream.Ask(OnnxRequest({1, 2}, 3));
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_THAT(Returned(stream.context(), "traceparent"), HasSubstr(kTrace));
  const std::vector<json> lines = Lines(server);
  ASSERT_EQ(lines.size(), 3u);
  for (const json& line : lines) EXPECT_EQ(line["trace_id"], kTrace);
  EXPECT_EQ(lines[1]["span_id"], lines[2]["span_id"]) << "one call, one span";
  EXPECT_NE(lines[0]["span_id"], lines[1]["span_id"]);
}

}  // namespace
}  // namespace topk::testing
