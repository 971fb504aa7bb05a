// Sends spans to an OpenTelemetry collector in the background.
#pragma once

#include <google/protobuf/repeated_field.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "core/common/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/trace_context.h"
#include "server/threads/periodic.h"

namespace topk {

/// Decides which calls have a span, and sends spans in batches over OTLP/gRPC
/// from one thread. At most kMaxQueued spans are queued or being sent. Further
/// spans are dropped and counted, so a slow or absent collector neither delays
/// calls nor fills the memory. Thread-safe.
class SpanExporter {
 public:
  /// The finished span of a call or request, and its child spans.
  using Span = opentelemetry::proto::trace::v1::Span;
  using Spans = google::protobuf::RepeatedPtrField<Span>;

  /// Maximum number of queued spans, and of spans per message. Child spans do
  /// not count.
  static constexpr size_t kMaxQueued = 2048;
  static constexpr size_t kMaxBatch = 256;
  /// How often queued spans are sent.
  static constexpr std::chrono::milliseconds kInterval{200};
  /// Time limit of one message, including retries.
  static constexpr std::chrono::milliseconds kTimeout{10000};
  /// Maximum time for which the destructor keeps sending.
  static constexpr std::chrono::milliseconds kFlush{2000};

  /// Does not connect before the first span. `log` must outlive this object.
  /// REQUIRES: `config` names an endpoint.
  SpanExporter(const TraceConfig& config, spdlog::logger& log);
  ~SpanExporter();

  /// Returns whether to record a span for a call with this trace.
  bool Samples(const TraceContext& trace) const;

  /// Queues spans, or drops them. Never waits for the collector.
  void Add(Spans spans);

  /// Adds the topk_spans_* metrics. This object must outlive all scrapes.
  void AddMetrics(MetricRegistry& registry) const;

  /// The number of spans that the collector accepted, and the number that a
  /// full queue dropped. Both numbers include child spans.
  int64_t exported() const { return exported_; }
  int64_t queue_full() const { return queue_full_; }

 private:
  using TraceService = opentelemetry::proto::collector::trace::v1::TraceService;
  using ExportRequest =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Clock = std::chrono::steady_clock;

  void SendAll();
  void Send(int64_t count);
  bool IsOutOfTime() const { return Clock::now() >= give_up_at_.load(); }

  const TraceConfig config_;
  const std::unique_ptr<TraceService::Stub> stub_;
  spdlog::logger& log_;
  std::atomic<int64_t> exported_ = 0;
  std::atomic<int64_t> queue_full_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::atomic<int64_t> rejected_ = 0;
  // Set by the destructor.
  std::atomic<Clock::time_point> give_up_at_ = Clock::time_point::max();

  // Used by one thread at a time: sender_, then the destructor.
  grpc::CompletionQueue queue_;
  ExportRequest request_;
  bool failing_ = false;

  Mutex mutex_;
  std::deque<Spans> queued_ TOPK_GUARDED_BY(mutex_);
  size_t sending_ TOPK_GUARDED_BY(mutex_) = 0;

  std::optional<Periodic> sender_;
};

}  // namespace topk
