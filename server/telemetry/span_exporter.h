// Sends spans to an OpenTelemetry collector, in the background.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/span.h"
#include "server/telemetry/trace_config.h"

namespace topk {

/// Decides which calls have a span, and sends these in batches over OTLP/gRPC
/// from one thread. At most kMaxQueued spans wait or are being sent; further
/// ones are dropped and counted, so that neither a slow nor an absent collector
/// delays a call or takes memory. Thread-safe.
class SpanExporter {
 public:
  /// The spans, without their stages, in memory and in one message.
  static constexpr size_t kMaxQueued = 2048;
  static constexpr size_t kMaxBatch = 256;
  /// The longest time of a span in the queue while the collector answers, of
  /// one message with its retries, and of sending the last ones.
  static constexpr std::chrono::milliseconds kInterval{1000};
  static constexpr std::chrono::milliseconds kTimeout{10000};
  static constexpr std::chrono::milliseconds kFlush{2000};

  /// Connects at the first span. The logger outlives it. REQUIRES: the settings
  /// name an endpoint.
  SpanExporter(const TraceConfig& config, spdlog::logger& log);

  /// Sends what is queued, for at most kFlush.
  ~SpanExporter();

  /// Whether a call with this trace has a span.
  bool Samples(const TraceContext& trace) const;

  /// Queues a span, or drops it. Never waits for the collector.
  void Add(Span span);

  /// Adds the topk_spans_* metrics. It outlives the registry's scrapes.
  void AddMetrics(MetricRegistry& registry) const;

  /// The spans, with their stages, that the collector has accepted, that found
  /// the queue full, that could not be sent, and that the collector rejected.
  int64_t exported() const { return exported_; }
  int64_t queue_full() const { return queue_full_; }
  int64_t failed() const { return failed_; }
  int64_t rejected() const { return rejected_; }

 private:
  using TraceService = opentelemetry::proto::collector::trace::v1::TraceService;
  using ExportRequest =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

  void Run();
  void SendAll(const std::vector<Span>& spans);
  void Send(int64_t count);
  grpc::Status Call(int64_t& rejected);
  bool Await(grpc::ClientContext& context);
  void Log(const grpc::Status& status);

  const TraceConfig config_;
  const uint64_t sampled_below_;  // of the lower 63 bits of a trace's id
  const std::unique_ptr<TraceService::Stub> stub_;
  spdlog::logger& log_;
  grpc::CompletionQueue queue_;  // the thread's, as is the request
  ExportRequest request_;
  std::atomic<bool> failing_ = false;  // set by the thread
  std::atomic<int64_t> exported_ = 0;
  std::atomic<int64_t> queue_full_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::atomic<int64_t> rejected_ = 0;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::vector<Span> queued_;
  std::atomic<size_t> held_ = 0;  // queued or being sent
  bool stopping_ = false;
  bool given_up_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace topk
