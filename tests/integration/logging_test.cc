// Log lines are valid JSON for any text, and logging never blocks.
#include "server/telemetry/logging.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "server/calls/access_log.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using nlohmann::json;

const std::string kNasty =
    std::string("a \"quote\" \\ line\nbreak\ttab \x01 \xff\xfe ") + '\0' +
    "{} \xe2\x82\xac";

struct Capture {
  explicit Capture(const std::string& format)
      : sink(std::make_shared<LogSink>()),
        log(MakeLoggerTo(sink, "debug", format)) {}

  std::vector<std::string> Lines() const {
    std::istringstream text(sink->Text());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  std::shared_ptr<LogSink> sink;
  std::shared_ptr<spdlog::logger> log;
};

TEST(JsonLog, IsValidForAnyMessage) {
  const Capture capture("json");
  capture.log->info("{}", kNasty);
  ASSERT_EQ(capture.Lines().size(), 1u);
  const json line = json::parse(capture.Lines()[0]);
  EXPECT_EQ(line["level"], "info");
  EXPECT_GT(line["ts"].get<double>(), 1.6e9);
  const std::string msg = line["msg"];
  EXPECT_EQ(msg.substr(0, 21), kNasty.substr(0, 21));
  EXPECT_NE(msg.find("\xef\xbf\xbd"), std::string::npos) << "U+FFFD";
  EXPECT_NE(msg.find("\xe2\x82\xac"), std::string::npos) << "valid UTF-8";
}

TEST(JsonLog, IsValidForAnyCall) {
  const Capture capture("json");
  CallInfo call;
  call.method = "ComputeTopK";
  call.caller = {.name = kNasty, .key = "", .authenticated = true};
  call.trace.state = kNasty;
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 4);
  request.set_request_id(kNasty);
  RequestStats stats;
  stats.tensor_bytes = 12;
  stats[Stage::kCompute] = 34000;
  stats.kernel = kNasty;
  const Status status = InvalidArgument(kNasty, "", kNasty);
  LogObject(*capture.log, spdlog::level::info,
            AccessFields(call, request, stats, status, 5));
  ASSERT_EQ(capture.Lines().size(), 1u);
  const json line = json::parse(capture.Lines()[0]);
  EXPECT_EQ(line["method"], "ComputeTopK");
  EXPECT_EQ(line["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["request_bytes"], 12);
  EXPECT_EQ(line["compute_us"], 34);
  EXPECT_EQ(line["suppressed"], 5);
  EXPECT_FALSE(line.contains("encode_us")) << "not reached";
  EXPECT_EQ(line["level"], "info");
  EXPECT_TRUE(line.contains("request_id") && line.contains("error"));
}

TEST(TextLog, KeepsToOneLine) {
  const Capture capture("text");
  capture.log->info("{}", kNasty);
  v1::TopKRequest request;
  request.set_request_id(kNasty);
  LogObject(*capture.log, spdlog::level::info,
            AccessFields({}, request, {}, {}, 0));
  ASSERT_EQ(capture.Lines().size(), 2u) << capture.sink->Text();
  EXPECT_FALSE(json::accept(capture.Lines()[0]));
  EXPECT_TRUE(json::accept(capture.Lines()[1])) << "for machines";
}

TEST(AsyncLog, IsWrittenByAFlush) {
  const auto sink = std::make_shared<LogSink>();
  const auto log = MakeLogger("info", "json", sink);
  for (int i = 0; i < 100; ++i) log->info("line {}", i);
  EXPECT_TRUE(FlushLog(std::chrono::seconds(20)));
  EXPECT_NE(sink->Text().find("line 99"), std::string::npos);
}

}  // namespace
}  // namespace topk::testing
