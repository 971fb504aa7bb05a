// Exports spans to a collector that accepts, rejects, hangs or is absent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/text.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/telemetry/span_exporter.h"
#include "tests/integration/ask.h"
#include "tests/integration/subprocess.h"
#include "tests/support/authority.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";
constexpr char kCall[] = "topk.v1.TopKService/ComputeTopK";

// An OpenTelemetry collector on a free loopback port. Stores the messages that
// it receives. The handler decides how to respond to a message, and may wait
// for Release().
class Collector final : private opentelemetry::proto::collector::trace::v1::
                            TraceService::Service {
 public:
  using Request =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  using Span = opentelemetry::proto::trace::v1::Span;
  using Handler = std::function<grpc::Status(Collector&, Response&)>;

  explicit Collector(
      Handler handler = [](Collector&, Response&) { return grpc::Status(); },
      const std::shared_ptr<grpc::ServerCredentials>& credentials =
          grpc::InsecureServerCredentials())
      : handler_(std::move(handler)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() {
    Release();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  // Returns settings that sample every call and export its spans here.
  TraceConfig Config(const std::string& scheme = "http") const {
    TraceConfig config;
    config.endpoint = scheme + "://127.0.0.1:" + std::to_string(port_);
    config.resource = {{"service.name", "test"}};
    return config;
  }

  // For handlers: blocks until Release().
  void AwaitRelease() { released_.wait(false); }
  void Release() {
    released_ = true;
    released_.notify_all();
  }

  std::vector<Request> Requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Returns the spans so far. If `name` is not empty, only those named so.
  std::vector<Span> Spans(const std::string& name = "") {
    std::vector<Span> spans;
    for (const Request& request : Requests()) {
      for (const Span& span :
           request.resource_spans(0).scope_spans(0).spans()) {
        if (name.empty() || span.name() == name) spans.push_back(span);
      }
    }
    return spans;
  }

 private:
  grpc::Status Export(grpc::ServerContext*, const Request* request,
                      Response* response) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    return handler_(*this, *response);
  }

  const Handler handler_;
  int port_ = 0;
  std::mutex mutex_;
  std::atomic<bool> released_ = false;
  std::vector<Request> requests_;
  std::unique_ptr<grpc::Server> server_;
};

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Returns the attributes as text.
std::map<std::string, std::string> Attributes(const Collector::Span& span) {
  std::map<std::string, std::string> all;
  for (const auto& attribute : span.attributes()) {
    const auto& value = attribute.value();
    all[attribute.key()] = value.has_int_value()
                               ? std::to_string(value.int_value())
                               : value.string_value();
  }
  return all;
}

// Stop() ends the server, which exports its last spans.
class Traces : public ::testing::Test {
 protected:
  void Start(const TraceConfig& traces) {
    server_.emplace(
        ServerConfig{.metrics_listen = "127.0.0.1:0", .traces = traces});
  }

  // Calls ComputeTopK. Returns the traceparent of the response.
  std::string Call(const v1::TopKRequest& request = OnnxRequest({1, 2, 3}, 2),
                   const std::string& traceparent = "") {
    const CallResult asked =
        Ask(*server_, request,
            traceparent.empty() ? Metadata{}
                                : Metadata{{"traceparent", traceparent}});
    status_ = asked.status;
    return asked.traceparent;
  }

  double Metric(const std::string& series) { return Value(*server_, series); }

  void Stop() { server_.reset(); }

  TemporaryFolder folder_;
  std::optional<TestServer> server_;
  grpc::Status status_;
};

TEST_F(Traces, AClientsSpanIsTheParentOfACallAndTheCallThatOfItsStages) {
  Collector collector;
  Start(collector.Config());
  Call(OnnxRequest({1}, 1), StrCat("00-", kTrace, "-", kParent, "-00"));
  const std::string returned = Call(OnnxRequest({1, 2, 3}, 2),
                                    StrCat("00-", kTrace, "-", kParent, "-01"));
  Stop();
  const auto calls = collector.Spans(kCall);
  ASSERT_THAT(calls, SizeIs(1)) << "the first call is not sampled";
  const Collector::Span& call = calls.front();
  EXPECT_EQ(Hex(call.trace_id()), kTrace);
  EXPECT_EQ(Hex(call.parent_span_id()), kParent);
  EXPECT_EQ(returned, StrCat("00-", kTrace, "-", Hex(call.span_id()), "-01"));
  EXPECT_EQ(call.kind(), Collector::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(call.flags(), 0x301) << "sampled, of a remote parent";
  EXPECT_EQ(call.status().code(), 0);
  EXPECT_THAT(
      Attributes(call),
      IsSupersetOf({Pair("rpc.system", "grpc"),
                    Pair("rpc.service", "topk.v1.TopKService"),
                    Pair("rpc.method", "ComputeTopK"),
                    Pair("rpc.grpc.status_code", "0"),
                    Pair("network.transport", "tcp"),
                    Pair("network.peer.address", "127.0.0.1"),
                    Pair("topk.dialect", "onnx"), Pair("topk.elements", "3"),
                    Pair("topk.k", "2"), Pair("topk.backend", "cpu")}));
  EXPECT_NEAR(1e-9 * static_cast<double>(call.end_time_unix_nano()),
              static_cast<double>(std::time(nullptr)), 60);
  std::vector<std::string> stages;
  uint64_t next = call.end_time_unix_nano();
  for (const Collector::Span& span : collector.Spans()) {
    if (span.span_id() == call.span_id()) continue;
    stages.push_back(span.name());
    EXPECT_EQ(span.trace_id(), call.trace_id());
    EXPECT_EQ(span.parent_span_id(), call.span_id());
    EXPECT_EQ(span.kind(), Collector::Span::SPAN_KIND_INTERNAL);
    EXPECT_LE(span.end_time_unix_nano(), next) << span.name();
    next = span.start_time_unix_nano();
    EXPECT_LE(next, span.end_time_unix_nano());
  }
  EXPECT_GE(next, call.start_time_unix_nano());
  EXPECT_THAT(stages,
              UnorderedElementsAre("queue", "decode", "compute", "encode"));
  const Collector::Request request = collector.Requests().front();
  const auto& resource = request.resource_spans(0).resource();
  EXPECT_EQ(resource.attributes(0).key(), "service.name");
  EXPECT_EQ(resource.attributes(0).value().string_value(), "test");
}

TEST_F(Traces, OnlyTheServersFailuresAreErrorsOfASpan) {
  Collector collector;
  Start(collector.Config());
  Call(OnnxRequest({1}, 2));
  v1::TopKRequest shared = OnnxRequest({1}, 1);
  shared.mutable_tensor()->mutable_shared_memory()->set_name("/topk");
  Call(shared);
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  Stop();
  const auto calls = collector.Spans(kCall);
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_THAT(Attributes(calls[0]),
              IsSupersetOf({Pair("rpc.grpc.status_code", "3"),
                            Pair("topk.reason", "K_EXCEEDS_DIMENSION")}));
  EXPECT_EQ(calls[0].status().code(), 0) << "the client's";
  EXPECT_THAT(Attributes(calls[1]),
              IsSupersetOf({Pair("rpc.grpc.status_code", "12"),
                            Pair("topk.reason", "SHARED_MEMORY_NOT_ALLOWED")}));
  EXPECT_EQ(calls[1].status().code(), 2);
  EXPECT_EQ(calls[1].status().message(), status_.error_message());
}

TEST_F(Traces, EachRequestOfAStreamHasASpanUpToABound) {
  Collector collector;
  Start(collector.Config());
  constexpr int kRequests = 140;
  ManyCall stream(*server_);
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_TRUE(stream->Write(OnnxRequest({1, 2}, i == 0 ? 3 : 1)));
  }
  stream->WritesDone();
  v1::TopKResult result;
  while (stream->Read(&result)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
  Stop();
  const auto calls = collector.Spans("topk.v1.TopKService/ComputeTopKMany");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(Attributes(calls[0])["topk.requests"], std::to_string(kRequests));
  const auto requests = collector.Spans("request");
  EXPECT_THAT(requests, SizeIs(128));
  int failed = 0;
  for (const Collector::Span& request : requests) {
    EXPECT_EQ(request.parent_span_id(), calls[0].span_id());
    EXPECT_EQ(request.trace_id(), calls[0].trace_id());
    EXPECT_GE(request.start_time_unix_nano(), calls[0].start_time_unix_nano());
    failed += Attributes(request).contains("topk.reason") ? 1 : 0;
  }
  EXPECT_EQ(failed, 1);
  EXPECT_THAT(collector.Spans("compute"), SizeIs(127));
}

TEST_F(Traces, SamplersDecideByTheParentAndByTheTracesId) {
  const auto samples = [](bool follow_parent, double ratio, uint64_t parent,
                          bool sampled, uint64_t id) {
    Collector collector;
    TraceConfig config = collector.Config();
    config.follow_parent = follow_parent;
    config.ratio = ratio;
    const auto log = MakeLoggerTo(std::make_shared<LogSink>(), "off", "text");
    const SpanExporter exporter(config, *log);
    TraceContext trace;
    trace.trace_low = id;
    trace.parent = parent;
    trace.sampled = sampled;
    return exporter.Samples(trace);
  };
  constexpr uint64_t kHighest = ~uint64_t{0};
  EXPECT_TRUE(samples(true, 0, 1, true, kHighest));
  EXPECT_FALSE(samples(true, 1, 1, false, 0));
  EXPECT_TRUE(samples(true, 1, 0, false, kHighest));
  EXPECT_FALSE(samples(true, 0, 0, false, 0));
  EXPECT_TRUE(samples(false, 1, 1, false, kHighest));
  EXPECT_FALSE(samples(false, 0, 1, true, 0));
  EXPECT_TRUE(samples(false, 0.5, 0, false, (uint64_t{1} << 63) - 1));
  EXPECT_FALSE(samples(false, 0.5, 0, false, uint64_t{1} << 63));
}

TEST_F(Traces, ACollectorOverTls) {
#if defined(TOPK_TSAN)
  GTEST_SKIP() << "ThreadSanitizer does not see the locks of libssl";
#endif
  const Authority authority;
  const Identity identity = authority.Issue();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
  Collector collector([](Collector&, auto&) { return grpc::Status(); },
                      grpc::SslServerCredentials(options));
  const std::string roots = folder_.File("roots.pem");
  WriteText(roots, authority.certificate());
  Topkd topkd({"--otlp-endpoint", collector.Config("https").endpoint},
              "127.0.0.1:0", {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" + roots});
  EXPECT_TRUE(Ask(topkd.target(), OnnxRequest({1}, 1)).status.ok());
  EXPECT_EQ(topkd.process().Stop(), 0);
  EXPECT_THAT(collector.Spans(kCall), SizeIs(1)) << topkd.process().Output();
}

TEST_F(Traces, AnOverloadedCollectorIsAskedAgainAndItsRejectionsCount) {
  std::atomic<int> attempts = 0;
  Collector collector([&](Collector&, Collector::Response& response) {
    if (attempts++ == 0) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "overloaded");
    }
    response.mutable_partial_success()->set_rejected_spans(2);
    return grpc::Status();
  });
  Start(collector.Config());
  Call();
  EXPECT_TRUE(Eventually([&] {
    return Metric(R"(topk_spans_dropped_total{reason="rejected"})") == 2;
  }));
  EXPECT_EQ(Metric("topk_spans_exported_total{}"), 3);
  EXPECT_EQ(attempts, 2);
}

TEST_F(Traces, AnAbsentCollectorDelaysNoCallAndIsLoggedOnce) {
  const TakenPort nobody(/*listens=*/false);
  TraceConfig config;
  config.endpoint = StrCat("http://", nobody.address());
  Start(config);
  for (int i = 0; i < 100; ++i) Call();
  EXPECT_TRUE(status_.ok());
  EXPECT_TRUE(Eventually([&] {
    return Metric(R"(topk_spans_dropped_total{reason="export_failed"})") > 0;
  }));
  EXPECT_THAT(server_->Log(), HasSubstr("traces: cannot send spans to"));
}

// The collector blocks, and there are far more spans than the queue holds.
TEST_F(Traces, SpansBeyondTheQueueAreDroppedAndCounted) {
  Collector collector([](Collector& self, auto&) {
    self.AwaitRelease();
    return grpc::Status();
  });
  const auto log = MakeLoggerTo(std::make_shared<LogSink>(), "off", "text");
  constexpr int64_t kSpans = 100'000;
  constexpr int64_t kThreads = 4;
  {
    SpanExporter exporter(collector.Config(), *log);
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&exporter] {
        for (int64_t j = 0; j < kSpans / kThreads; ++j) {
          SpanExporter::Spans spans;
          spans.Add();
          spans.Add();
          exporter.Add(std::move(spans));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(exporter.queue_full(),
              2 * (kSpans - int64_t{SpanExporter::kMaxQueued}));
    EXPECT_EQ(exporter.exported(), 0);
    collector.Release();
    EXPECT_TRUE(Eventually([&] {
      return exporter.exported() == 2 * int64_t{SpanExporter::kMaxQueued};
    }));
    SpanExporter::Spans last;
    last.Add()->set_name("last");
    exporter.Add(std::move(last));
  }
  EXPECT_THAT(collector.Spans("last"), SizeIs(1)) << "room again";
  for (const Collector::Request& request : collector.Requests()) {
    EXPECT_LE(request.resource_spans(0).scope_spans(0).spans_size(),
              2 * int{SpanExporter::kMaxBatch});
  }
}

// Tests a port that accepts connections but never responds, and a collector
// that receives a message but never responds.
TEST_F(Traces, ACollectorThatHangsDelaysTheEndByABoundedTime) {
  const TakenPort silent(/*listens=*/true);
  Collector hanging([](Collector& self, auto&) {
    self.AwaitRelease();
    return grpc::Status();
  });
  TraceConfig to_silent;
  to_silent.endpoint = StrCat("http://", silent.address());
  for (const TraceConfig& config : {to_silent, hanging.Config()}) {
    Topkd topkd({"--otlp-endpoint", config.endpoint});
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(Ask(topkd.target(), OnnxRequest({1}, 1)).status.ok());
    }
    EXPECT_EQ(topkd.process().Stop(), 0) << topkd.process().Output();
    EXPECT_THAT(topkd.process().Output(), HasSubstr("drained"));
  }
}

}  // namespace
}  // namespace topk::testing
