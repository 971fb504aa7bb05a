// The lines and fields of the log.
#include "server/telemetry/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/telemetry/logging.h"
#include "tests/integration/ask.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00-" + kTrace + "-00f067aa0ba902b7-01";

// Returns the lines of a log. A line that is not JSON is
// json::value_t::discarded.
std::vector<json> Lines(const std::string& log) {
  std::istringstream text(log);
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return lines;
}

std::vector<json> Lines(const TestServer& server) {
  return Lines(server.Log());
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
    const CallResult asked =
        Ask(server, request,
            {{"traceparent", kParent}, {"tracestate", "rojo=1,congo=2"}});
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
                           {"response_bytes", 24},
                           {"trace_id", kTrace},
                           {"parent_span_id", "00f067aa0ba902b7"},
                           {"tracestate", "rojo=1,congo=2"}};
    for (const auto& [name, value] : expected.items()) {
      EXPECT_EQ(line[name], value) << name;
    }
    EXPECT_GT(line["ts"].get<double>(), 1.6e9);
    int64_t stages = 0;
    for (const char* stage : {"queue", "decode", "compute", "encode"}) {
      const int64_t microseconds = line[stage + std::string("_us")];
      EXPECT_GE(microseconds, 0) << stage;
      stages += microseconds;
    }
    EXPECT_GE(line["total_us"], stages);
    const std::string span = line["span_id"];
    EXPECT_NE(span, "00f067aa0ba902b7");
    EXPECT_EQ(asked.traceparent, "00-" + kTrace + "-" + span + "-01");
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

TEST(AccessLog, HasTheTraceOfStreamsAndFailures) {
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

TEST(Log, HasOneLinePerMessageForAnyBytes) {
  const std::string bytes =
      std::string("a \"quote\" \\ line\nbreak\ttab \x01 \xff\xfe ") + '\0' +
      "{} \xe2\x82\xac";
  CallInfo call;
  call.principal = bytes;
  v1::TopKRequest request;
  request.set_request_id(bytes);
  for (const std::string format : {"json", "text"}) {
    const auto sink = std::make_shared<LogSink>();
    const auto log = MakeLoggerTo(sink, "debug", format);
    log->info("{}", bytes);
    LogObject(*log, spdlog::level::info,
              AccessFields(call, request, {}, InvalidArgument(bytes, "", bytes),
                           /*suppressed=*/5));
    const std::vector<json> lines = Lines(sink->Text());
    ASSERT_EQ(lines.size(), 2u) << sink->Text();
    EXPECT_EQ(lines[0].is_discarded(), format == "text");
    EXPECT_TRUE(format == "text" || lines[0]["msg"] == lines[1]["principal"]);
    EXPECT_EQ(lines[1]["suppressed"], 5);
    EXPECT_FALSE(lines[1].contains("encode_us")) << "not reached";
    for (const char* name : {"principal", "request_id", "reason", "error"}) {
      const std::string text = lines[1][name];
      EXPECT_THAT(text, HasSubstr("\\ line\nbreak\ttab \x01 \xef\xbf\xbd"))
          << "U+FFFD replaces invalid UTF-8";
      EXPECT_THAT(text, HasSubstr("\xe2\x82\xac"));
    }
  }
}

}  // namespace
}  // namespace topk::testing
