// Metrics and their HTTP endpoint.
#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/telemetry/logging.h"
#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCompute[] = "/topk.v1.TopKService/ComputeTopK";

// Returns the name of a grpc_server_* series with its labels.
std::string Grpc(const std::string& family, const std::string& code,
                 const std::string& method, const std::string& type,
                 const std::string& service = "topk.v1.TopKService") {
  return "grpc_server_" + family + "{" +
         (code.empty() ? "" : "grpc_code=\"" + code + "\",") +
         "grpc_method=\"" + method + "\",grpc_service=\"" + service +
         "\",grpc_type=\"" + type + "\"}";
}

TEST(Metrics, CountCallsRequestsAndStages) {
  TestServer server(WithMetrics());
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 2);
  const CallResult asked = Ask(server, request);
  for (int i = 0; i < 2; ++i) Ask(server, request);
  Ask(server, OnnxRequest({1, 2, 3}, 4));
  const auto health = grpc::health::v1::Health::NewStub(server.Connect());
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(health->Check(&context, {}, &response).ok());
  v1::TopKRequestChunk data;
  data.set_data(request.tensor().data());
  RawCall(server.Connect(), "/topk.v1.TopKService/StreamTopK",
          {HeaderOf(request).SerializeAsString(), data.SerializeAsString()});
  RawCall(server.Connect(), "/topk.v1.TopKService/ComputeTopKMany",
          {request.SerializeAsString(), request.SerializeAsString(), ""});
  // A stream is counted shortly after its status is sent.
  EXPECT_TRUE(Eventually([&] {
    return Value(server, Grpc("handled_total", "OK", "ComputeTopKMany",
                              "bidi_stream")) == 1;
  }));
  const std::pair<std::string, double> expected[] = {
      {Grpc("started_total", "", "ComputeTopK", "unary"), 4},
      {Grpc("handled_total", "OK", "ComputeTopK", "unary"), 3},
      {Grpc("handled_total", "InvalidArgument", "ComputeTopK", "unary"), 1},
      {Grpc("handled_total", "Internal", "ComputeTopK", "unary"), 0},
      {Grpc("msg_received_total", "", "ComputeTopK", "unary"), 4},
      {Grpc("msg_sent_total", "", "ComputeTopK", "unary"), 3},
      {Grpc("handling_seconds_count", "", "ComputeTopK", "unary"), 4},
      {Grpc("handled_total", "OK", "Check", "unary", "grpc.health.v1.Health"),
       1},
      {Grpc("msg_received_total", "", "StreamTopK", "bidi_stream"), 2},
      {Grpc("msg_sent_total", "", "StreamTopK", "bidi_stream"), 1},
      {Grpc("msg_received_total", "", "ComputeTopKMany", "bidi_stream"), 3},
      {Grpc("msg_sent_total", "", "ComputeTopKMany", "bidi_stream"), 3},
      {R"(topk_requests_total{code="OK",dialect="onnx",version="11"})", 6},
      {R"(topk_requests_total{code="INVALID_ARGUMENT",dialect="unknown",)"
       R"(version="unknown"})",
       1},
      {R"(topk_stage_seconds_count{stage="queue"})", 8},
      {R"(topk_stage_seconds_count{stage="decode"})", 8},
      {R"(topk_stage_seconds_count{stage="compute"})", 6},
      {R"(topk_stage_seconds_count{stage="encode"})", 6},
      {R"(topk_compute_seconds_count{dialect="onnx",version="11"})", 6},
      {R"(topk_request_seconds_count{method="ComputeTopKMany"})", 3},
      {"topk_elements_sum{}", 18},
      {"topk_tensor_bytes_sum{}", 72},
      {"topk_k_elements_sum{}", 12},
      {"topk_queue_depth{}", 0},
      {"topk_log_dropped_total{}", DroppedLines()},
      {"topk_max_inflight_calls{}", 4096},
      {"topk_ready{}", 1},
  };
  for (const auto& [series, value] : expected) {
    EXPECT_EQ(Value(server, series), value) << series;
  }
  auto samples = Scrape(server);
  EXPECT_GE(samples[R"(topk_answers_total{backend="cpu",kernel=")" +
                    asked.response.execution().kernel() + "\"}"],
            3);
  EXPECT_GT(samples["topk_max_inflight_bytes{}"], 0);
  EXPECT_GT(samples["process_resident_memory_bytes{}"], 1 << 20);
  EXPECT_GT(samples["process_virtual_memory_bytes{}"], 1 << 20);
  EXPECT_GE(samples["process_cpu_seconds_total{}"], 0);
  EXPECT_GT(samples["process_threads{}"], 1);
  EXPECT_GT(samples["process_open_fds{}"], 3);
  EXPECT_GT(samples["process_max_fds{}"], samples["process_open_fds{}"]);
  EXPECT_NEAR(samples["process_start_time_seconds{}"],
              static_cast<double>(time(nullptr)), 600);
  EXPECT_THAT(ScrapedText(server),
              ContainsRegex("topk_build_info.compiler=\".*grpc_version=\".*"
                            "instruction_set=\".*version=\""));
  server.server().Drain({}, std::chrono::milliseconds(0));
  EXPECT_EQ(Value(server, "topk_ready{}"), 0);
}

TEST(Metrics, CountOnlyADrainAsDraining) {
  Metrics metrics;
  for (const char* reason : {"SHUTTING_DOWN", "DEVICE_LOST", "DEVICE_LOST"}) {
    metrics.Record("ComputeTopK", OnnxRequest({1, 2, 3}, 1), {},
                   Status{Code::kUnavailable, reason, "", ""});
  }
  metrics.Record("ComputeTopK", {}, {},
                 Status{Code::kResourceExhausted, "TOO_MANY_ELEMENTS", "", ""});
  const std::string text =
      prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
  EXPECT_THAT(text, HasSubstr("topk_rejected_total{reason=\"draining\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("topk_rejected_total{reason=\"limit\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("topk_requests_total{code=\"UNAVAILABLE\","
                              "dialect=\"onnx\",version=\"11\"} 3\n"));
}

TEST(Metrics, CountCancelledRequestsAndStreams) {
  // With a single poller, the message is handled before the cancellation.
  TestServer server({.metrics_listen = "127.0.0.1:0", .pollers = 1});
  StreamCall stream(server);
  ASSERT_TRUE(stream->Write(HeaderOf(OnnxRequest({1, 2, 3}, 1))));
  EXPECT_TRUE(Eventually([&] {
    return Value(server, Grpc("msg_received_total", "", "StreamTopK",
                              "bidi_stream")) == 1;
  }));
  stream.context().TryCancel();
  EXPECT_TRUE(Eventually([&] {
    return Value(server, R"(topk_cancelled_total{when="during_compute"})") == 1;
  }));
  const auto handled = [&](const char* code) {
    return Value(server,
                 Grpc("handled_total", code, "StreamTopK", "bidi_stream"));
  };
  EXPECT_TRUE(Eventually([&] { return handled("Canceled") == 1; }));
  EXPECT_EQ(handled("OK"), 0);
  // The cancellation is not mistaken for the end of the stream.
  EXPECT_TRUE(server.HasLogged("\"CANCELLED\""));
  EXPECT_EQ(server.Log().find("INVALID_ARGUMENT"), std::string::npos);
}

// A unary call without a message is invalid only once the client has
// half-closed it.
TEST(Metrics, CountCallsCancelledBeforeTheirMessage) {
  TestServer server(WithMetrics());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = grpc::GenericStub(server.Connect())
                        .PrepareCall(&context, kCompute, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  const auto has_one = [&](const char* family, const char* code) {
    return Eventually([&] {
      return Value(server, Grpc(family, code, "ComputeTopK", "unary")) == 1;
    });
  };
  EXPECT_TRUE(has_one("started_total", ""));
  context.TryCancel();
  EXPECT_TRUE(has_one("handled_total", "Canceled"));
  EXPECT_EQ(server.Log().find("MESSAGE_MISSING"), std::string::npos);
  queue.Shutdown();
}

TEST(Metrics, CountRejectionsForLackOfMemory) {
  TestServer server({.metrics_listen = "127.0.0.1:0",
                     .max_inflight_calls = 1,
                     .max_client_inflight_calls = 2});
  ManyCall stream(server);
  stream.Ask(OnnxRequest({1, 2, 3}, 1));
  EXPECT_EQ(Value(server, "topk_inflight_calls{}"), 1);
  EXPECT_FALSE(Ask(server, OnnxRequest({1, 2, 3}, 1)).status.ok());
  EXPECT_EQ(Value(server, "topk_rejected_total{reason=\"inflight_calls\"}"), 1);
  const auto line = nlohmann::json::parse(server.Log());
  EXPECT_EQ(line["reason"], "TOO_MANY_CALLS");
  EXPECT_LT(line["total_us"], 20000000) << "since the call's arrival";
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    return Value(server, "topk_inflight_calls{}") == 0 &&
           Value(server, "topk_inflight_bytes{}") == 0;
  }));
}

TEST(Metrics, HaveNoSeriesFromClients) {
  TestServer server(WithMetrics());
  const auto stub = server.Stub();
  Ask(*stub, OnnxRequest({1, 2, 3}, 1));  // creates the series of its kernel
  const size_t before = Scrape(server).size();
  const auto channel = server.Connect();
  for (int i = 0; i < 50; ++i) {
    const std::string number = std::to_string(i);
    RawCall(channel, "/made.up/Method" + number, {""});
    RawCall(channel, "/topk.v1.TopKService/Made" + number, {""});
    v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
    request.set_request_id("made-up-" + number);
    Ask(*stub, request, {{"traceparent", "00-made-up" + number}});
    request.mutable_spec()->set_version(100 + i);
    Ask(*stub, request);
    request.mutable_spec()->set_dialect(static_cast<v1::Dialect>(i));
    request.mutable_tensor()->set_data_type(static_cast<v1::DataType>(i));
    Ask(*stub, request);
  }
  EXPECT_EQ(Scrape(server).size(), before);
}

std::string MetricsAddress(TestServer& server) {
  return server.server().side_addresses().at("metrics");
}

TEST(MetricsOverHttp, AnswersOnlyGetAndHeadOfItsPath) {
  TestServer server(WithMetrics());
  const auto send = [&](const std::string& line) {
    return HttpExchange(MetricsAddress(server),
                        line + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  };
  for (const char* line : {"GET /", "GET /metric", "POST /metric"}) {
    EXPECT_THAT(send(line), StartsWith("HTTP/1.1 404 ")) << line;
  }
  for (const char* line : {"POST /metrics", "OPTIONS /metrics"}) {
    EXPECT_THAT(send(line), StartsWith("HTTP/1.1 405 ")) << line;
  }
  EXPECT_THAT(send("HEAD /metrics"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
  EXPECT_THAT(send("GET /metrics?name=x"),
              AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"),
                    HasSubstr("# TYPE topk_ready gauge\ntopk_ready 1\n")));
}

// There are more idle connections than the endpoint keeps open, and the server
// ends while scrapers connect.
TEST(MetricsOverHttp, AnswersDespiteIdleConnections) {
  std::optional<TestServer> server(WithMetrics());
  const std::string address = MetricsAddress(*server);
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(OpenSocketTo(address));
  EXPECT_TRUE(
      Eventually([&] { return !HttpGet(address, "/metrics").empty(); }));
  std::atomic<bool> stopped = false;
  std::thread scraper([&] {
    while (!stopped) {
      HttpExchange(address, "GET /metrics HTTP/1.0\r\n\r\n", /*seconds=*/1);
    }
  });
  server.reset();
  stopped = true;
  scraper.join();
  for (const int fd : idle) close(fd);
}

}  // namespace
}  // namespace topk::testing
