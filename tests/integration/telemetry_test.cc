// Metrics, their HTTP endpoint, and the log.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/access_log.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/metrics.h"
#include "tests/integration/ask.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using nlohmann::json;
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
  ASSERT_TRUE(
      CallUnary(*health, &grpc::health::v1::Health::Stub::Check).status.ok());
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
      {R"(topk_stage_seconds_count{stage="compute"})", 6},
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
  EXPECT_TRUE(server.HasLogged("\"peer\":\"ipv4:127.0.0.1:"));
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

TEST(Metrics, HaveNoSeriesFromClients) {
  TestServer server(WithMetrics());
  const auto stub = server.Stub();
  Ask(*stub, OnnxRequest({1, 2, 3}, 1));  // creates the series of its kernel
  const size_t before = Scrape(server).size();
  const auto channel = server.Connect();
  for (int i = 0; i < 50; ++i) {
    const std::string number = std::to_string(i);
    for (const char* unknown : {"/made.up/Method", "/topk.v1.TopKService/M"}) {
      EXPECT_EQ(RawCall(channel, unknown + number, {""}).status.error_code(),
                grpc::StatusCode::UNIMPLEMENTED);
    }
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

TEST(MetricsOverHttp, AnswersOnlyGetAndHeadOfItsPath) {
  TestServer server(WithMetrics());
  const auto send = [&](const std::string& line) {
    return HttpExchange(server.server().side_addresses().at("metrics"),
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
  const std::string address = server->server().side_addresses().at("metrics");
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
  const size_t sampled = Lines(server.Log()).size();
  EXPECT_GT(sampled, 0u);
  EXPECT_LT(sampled, 100u);
  for (int i = 0; i < 5; ++i) {
    Ask(server, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  }
  EXPECT_EQ(Lines(server.Log()).size(), sampled + 5);
  TestServer off;
  Ask(off, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  EXPECT_EQ(off.Log(), "");
}

TEST(AccessLog, WarnsOfSlowRequestsForAnySample) {
  TestServer server({.slow_request_seconds = 1e-6});
  Ask(server, OnnxRequest({1, 2}, 1), {{"traceparent", kParent}});
  Ask(server, OnnxRequest({1, 2}, 3));
  const std::vector<json> lines = Lines(server.Log());
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
  ASSERT_TRUE(Eventually([&] { return Lines(server.Log()).size() == 2; }));
  EXPECT_LE(Lines(server.Log())[1]["total_us"],
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
  EXPECT_LE(Lines(server.Log()).size(), most);
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
  const std::vector<json> lines = Lines(server.Log());
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
  call.caller = {.name = bytes, .key = "", .authenticated = true};
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
