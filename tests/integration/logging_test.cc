// Log lines: valid JSON and one line each, whatever they hold.
#include "server/logging.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

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

TEST(JsonLog, IsValidWhateverTheMessageHolds) {
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

TEST(JsonLog, IsValidWhateverACallHolds) {
  const Capture capture("json");
  AccessRecord record;
  record.method = "ComputeTopK";
  record.peer = kNasty;
  record.request_id = kNasty;
  record.code = "INVALID_ARGUMENT";
  record.message = kNasty;
  record.request_bytes = 12;
  record.response_bytes = 0;
  record.compute_microseconds = 34;
  LogAccess(*capture.log, record);
  ASSERT_EQ(capture.Lines().size(), 1u);
  const json line = json::parse(capture.Lines()[0]);
  EXPECT_EQ(line["method"], "ComputeTopK");
  EXPECT_EQ(line["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["request_bytes"], 12);
  EXPECT_EQ(line["compute_us"], 34);
  EXPECT_EQ(line["level"], "info");
  EXPECT_TRUE(line.contains("request_id") && line.contains("error"));
}

TEST(TextLog, KeepsToOneLine) {
  const Capture capture("text");
  capture.log->info("{}", kNasty);
  AccessRecord record;
  record.method = "ComputeTopK";
  record.request_id = kNasty;
  record.code = "OK";
  LogAccess(*capture.log, record);
  EXPECT_EQ(capture.Lines().size(), 2u) << capture.sink->Text();
}

TEST(AccessLog, HasALineOfEachFailedCallAndNoData) {
  TestServer server;
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 4);
  request.set_request_id("the \"one\"\n");
  const std::string secret = "SECRETSECRET";
  request.mutable_tensor()->set_data(secret);
  grpc::ClientContext context;
  v1::TopKResponse response;
  EXPECT_FALSE(server.Stub()->ComputeTopK(&context, request, &response).ok());
  const json line = json::parse(server.Log());
  EXPECT_EQ(line["request_id"], "the \"one\"\n");
  EXPECT_EQ(line["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(line["request_bytes"], 12);
  EXPECT_EQ(line["peer"].get<std::string>().substr(0, 15), "ipv4:127.0.0.1:");
  EXPECT_EQ(server.Log().find(secret), std::string::npos);
}

TEST(AccessLog, HasGoodCallsAtDebugAlone) {
  for (const char* level : {"info", "debug"}) {
    ServerConfig config = TestServer::LoopbackConfig();
    config.log_level = level;
    TestServer server(config);
    grpc::ClientContext context;
    v1::TopKResponse response;
    ASSERT_TRUE(server.Stub()
                    ->ComputeTopK(&context, OnnxRequest({1, 2}, 1), &response)
                    .ok());
    EXPECT_EQ(server.Log().find("\"OK\"") != std::string::npos,
              level == std::string("debug"));
  }
}

}  // namespace
}  // namespace topk::testing
