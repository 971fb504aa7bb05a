#include "server/telemetry/span_exporter.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/text.h"

namespace topk {
namespace {

namespace otlp = opentelemetry::proto;

// The OTLP specification requires retries. The deadline covers all attempts.
constexpr char kRetries[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {
    "maxAttempts": 4, "initialBackoff": "0.5s", "maxBackoff": "5s",
    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";
// gRPC keeps a message for a retry only if the message fits in this buffer.
constexpr int kRetryBytes = 4 << 20;
constexpr int kMaxReconnectMs = 5000;

std::shared_ptr<grpc::Channel> Connect(const TraceConfig& config) {
  const auto credentials = config.endpoint.starts_with("https:")
                               ? grpc::SslCredentials({})
                               : grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix("topkd/" TOPK_VERSION);
  arguments.SetServiceConfigJSON(kRetries);
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, kRetryBytes);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  const std::string address =
      config.endpoint.substr(config.endpoint.find("//") + 2);
  return grpc::CreateCustomChannel(StrCat("dns:///", address), credentials,
                                   arguments);
}

}  // namespace

SpanExporter::SpanExporter(const TraceConfig& config, spdlog::logger& log)
    : config_(config),
      stub_(TraceService::NewStub(Connect(config))),
      log_(log) {
  otlp::trace::v1::ResourceSpans& resource = *request_.add_resource_spans();
  for (const auto& [name, value] : config_.resource) {
    auto& attribute = *resource.mutable_resource()->add_attributes();
    attribute.set_key(name);
    attribute.mutable_value()->set_string_value(value);
  }
  resource.add_scope_spans()->mutable_scope()->set_name("topkd");
  sender_.emplace(kInterval, [this] { SendAll(); });
}

SpanExporter::~SpanExporter() {
  give_up_at_ = Clock::now() + kFlush;
  sender_.reset();
  SendAll();
}

bool SpanExporter::Samples(const TraceContext& trace) const {
  if (config_.follow_parent && trace.parent != 0) return trace.sampled;
  // Trace ids are random, so this condition selects a fraction `ratio` of them.
  return trace.trace_low >> 1 < static_cast<uint64_t>(config_.ratio * 0x1p63);
}

void SpanExporter::Add(Spans spans) {
  const MutexLock lock(mutex_);
  if (queued_.size() + sending_ < kMaxQueued) {
    queued_.push_back(std::move(spans));
  } else {
    queue_full_ += spans.size();
  }
}

void SpanExporter::AddMetrics(MetricRegistry& registry) const {
  registry.AddCounter("topk_spans_exported_total",
                      "Spans that the collector has accepted",
                      [this] { return exported_.load(); });
  for (const auto& [reason, count] : {std::pair("queue_full", &queue_full_),
                                      std::pair("export_failed", &failed_),
                                      std::pair("rejected", &rejected_)}) {
    registry.AddCounter(
        "topk_spans_dropped_total", "Spans that did not reach the collector",
        [count = count] { return count->load(); }, {{"reason", reason}});
  }
}

void SpanExporter::SendAll() {
  otlp::trace::v1::ScopeSpans& spans =
      *request_.mutable_resource_spans(0)->mutable_scope_spans(0);
  while (!IsOutOfTime()) {
    std::vector<Spans> batch;
    {
      const MutexLock lock(mutex_);
      sending_ = std::min(queued_.size(), kMaxBatch);
      if (sending_ == 0) return;
      for (; batch.size() < sending_; queued_.pop_front()) {
        batch.push_back(std::move(queued_.front()));
      }
    }
    spans.clear_spans();
    for (Spans& some : batch) {
      for (Span& span : some) *spans.add_spans() = std::move(span);
    }
    Send(spans.spans_size());
  }
}

void SpanExporter::Send(int64_t count) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  otlp::collector::trace::v1::ExportTraceServiceResponse response;
  grpc::Status status;
  const auto call = stub_->AsyncExport(&context, request_, &queue_);
  call->Finish(&response, &status, this);
  // Only check now and then whether the call has ended. In gRPC 1.51, a thread
  // that blocks in gRPC takes events from the pollers and has to wake a poller
  // for each event.
  constexpr std::chrono::milliseconds kPause{10};
  void* tag = nullptr;
  bool ok = false;
  while (queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (IsOutOfTime()) context.TryCancel();
    std::this_thread::sleep_for(kPause);
  }
  if (status.ok()) {
    const int64_t rejected = std::clamp<int64_t>(
        response.partial_success().rejected_spans(), 0, count);
    rejected_ += rejected;
    exported_ += count - rejected;
  } else {
    failed_ += count;
  }
  // Log only when sending begins to fail or to succeed again.
  if (std::exchange(failing_, !status.ok()) == !status.ok()) return;
  if (status.ok()) {
    log_.info("traces: spans are sent to {} again", config_.endpoint);
  } else {
    log_.warn("traces: cannot send spans to {}: {}", config_.endpoint,
              IsOutOfTime()
                  ? "the server exits before the collector accepts them"
                  : EscapeControls(status.error_message().substr(0, 1024)));
  }
}

}  // namespace topk
