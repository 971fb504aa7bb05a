// Sends spans to an OpenTelemetry collector in the background.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/common/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/trace_context.h"
#include "server/threads/periodic.h"

namespace topk {

/// A finished span. Its stages are sent as its child spans.
struct Span {
  using Clock = RequestStats::Clock;

  TraceContext trace;
  /// True if the span covers a whole call. Its parent is then the client's
  /// span. False if the span covers one request in a stream.
  bool of_call = true;
  std::string name;
  Clock::time_point start{};
  Clock::time_point end{};
  /// Whether the server failed, and the error message if it did.
  bool failed = false;
  std::string error;
  std::vector<std::pair<std::string, PropertyValue>> attributes;
  /// Nanoseconds by Stage; -1 for a stage that was not reached. There are no
  /// gaps between stages, and the last stage ends at `stages_end`.
  std::array<int64_t, kStageNames.size()> stages = {-1, -1, -1, -1};
  Clock::time_point stages_end{};

  /// Returns the number of spans that are sent: this one and its stages.
  int64_t Count() const;
};

/// Decides which calls have a span, and sends spans in batches over OTLP/gRPC
/// from one thread. At most kMaxQueued spans are queued or being sent. Further
/// spans are dropped and counted, so a slow or absent collector neither delays
/// calls nor fills the memory. Thread-safe.
class SpanExporter {
 public:
  /// Maximum number of queued spans, and of spans per message. Spans of stages
  /// do not count.
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

  /// Queues a span, or drops it. Never waits for the collector.
  void Add(Span span);

  /// Adds the topk_spans_* metrics. This object must outlive all scrapes.
  void AddMetrics(MetricRegistry& registry) const;

  /// The number of spans that the collector accepted, and the number that a
  /// full queue dropped. Both numbers include the spans of stages.
  int64_t exported() const { return exported_; }
  int64_t queue_full() const { return queue_full_; }

 private:
  using TraceService = opentelemetry::proto::collector::trace::v1::TraceService;
  using ExportRequest =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

  void SendAll();
  void Send(int64_t count);
  bool IsOutOfTime() const { return Span::Clock::now() >= give_up_at_.load(); }

  const TraceConfig config_;
  const std::unique_ptr<TraceService::Stub> stub_;
  spdlog::logger& log_;
  std::atomic<int64_t> exported_ = 0;
  std::atomic<int64_t> queue_full_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::atomic<int64_t> rejected_ = 0;
  // Set by the destructor.
  std::atomic<Span::Clock::time_point> give_up_at_ =
      Span::Clock::time_point::max();

  // Used by one thread at a time: sender_, then the destructor.
  grpc::CompletionQueue queue_;
  ExportRequest request_;
  bool failing_ = false;

  Mutex mutex_;
  std::deque<Span> queued_ TOPK_GUARDED_BY(mutex_);
  size_t sending_ TOPK_GUARDED_BY(mutex_) = 0;

  std::optional<Periodic> sender_;
};

}  // namespace topk
