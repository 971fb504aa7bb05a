#include "server/telemetry/span_exporter.h"

#include <endian.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

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

// Flags of an OTLP span.
constexpr uint32_t kSampled = 1;
constexpr uint32_t kRemoteKnown = 0x100;
constexpr uint32_t kRemote = 0x200;

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

std::string IdBytes(uint64_t id) {
  const uint64_t bytes = htobe64(id);
  return {reinterpret_cast<const char*>(&bytes), sizeof(bytes)};
}

// Adds an attribute to a span or a resource. Returns the attribute's value.
template <class Message>
otlp::common::v1::AnyValue& AddAttribute(const std::string& name, Message& to) {
  otlp::common::v1::KeyValue& attribute = *to.add_attributes();
  attribute.set_key(name);
  return *attribute.mutable_value();
}

// Appends a span and its stages. Span::Clock + `clock_offset` is Unix time.
void AppendSpan(const Span& span, std::chrono::nanoseconds clock_offset,
                otlp::trace::v1::ScopeSpans& spans) {
  const auto unix_nanoseconds = [&](Span::Clock::time_point time) {
    return static_cast<uint64_t>(
        (time.time_since_epoch() + clock_offset).count());
  };
  otlp::trace::v1::Span& to = *spans.add_spans();
  to.set_trace_id(IdBytes(span.trace.trace_high) +
                  IdBytes(span.trace.trace_low));
  to.set_span_id(IdBytes(span.trace.span));
  const bool has_parent = span.trace.parent != 0;
  if (has_parent) to.set_parent_span_id(IdBytes(span.trace.parent));
  to.set_flags(kSampled | kRemoteKnown |
               (has_parent && span.of_call ? kRemote : 0));
  to.set_trace_state(span.trace.state);
  to.set_name(span.name);
  to.set_kind(span.of_call ? otlp::trace::v1::Span::SPAN_KIND_SERVER
                           : otlp::trace::v1::Span::SPAN_KIND_INTERNAL);
  to.set_start_time_unix_nano(unix_nanoseconds(span.start));
  to.set_end_time_unix_nano(unix_nanoseconds(span.end));
  if (span.failed) {
    to.mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
    to.mutable_status()->set_message(span.error);
  }
  for (const auto& [name, value] : span.attributes) {
    otlp::common::v1::AnyValue& attribute = AddAttribute(name, to);
    if (const auto* number = std::get_if<int64_t>(&value)) {
      attribute.set_int_value(*number);
    } else {
      attribute.set_string_value(std::get<std::string>(value));
    }
  }
  Span stage;
  stage.trace = span.trace;
  stage.trace.parent = span.trace.span;
  stage.of_call = false;
  stage.end = span.stages_end;
  for (size_t i = span.stages.size(); i-- > 0;) {
    if (span.stages[i] < 0) continue;
    stage.trace.span = NewTraceId();
    stage.name = kStageNames[i];
    stage.start = stage.end - std::chrono::nanoseconds(span.stages[i]);
    AppendSpan(stage, clock_offset, spans);
    stage.end = stage.start;
  }
}

}  // namespace

int64_t Span::Count() const {
  return 1 + std::ranges::count_if(
                 stages, [](int64_t nanoseconds) { return nanoseconds >= 0; });
}

SpanExporter::SpanExporter(const TraceConfig& config, spdlog::logger& log)
    : config_(config),
      stub_(TraceService::NewStub(Connect(config))),
      log_(log) {
  otlp::trace::v1::ResourceSpans& resource = *request_.add_resource_spans();
  for (const auto& [name, value] : config_.resource) {
    AddAttribute(name, *resource.mutable_resource()).set_string_value(value);
  }
  resource.add_scope_spans()->mutable_scope()->set_name("topkd");
  sender_.emplace(kInterval, [this] { SendAll(); });
}

SpanExporter::~SpanExporter() {
  give_up_at_ = Span::Clock::now() + kFlush;
  sender_.reset();
  SendAll();
}

bool SpanExporter::Samples(const TraceContext& trace) const {
  if (config_.follow_parent && trace.parent != 0) return trace.sampled;
  // Trace ids are random, so this condition selects a fraction `ratio` of them.
  return trace.trace_low >> 1 < static_cast<uint64_t>(config_.ratio * 0x1p63);
}

void SpanExporter::Add(Span span) {
  const MutexLock lock(mutex_);
  if (queued_.size() + sending_ < kMaxQueued) {
    queued_.push_back(std::move(span));
  } else {
    queue_full_ += span.Count();
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
    std::vector<Span> batch;
    {
      const MutexLock lock(mutex_);
      sending_ = std::min(queued_.size(), kMaxBatch);
      if (sending_ == 0) return;
      for (; batch.size() < sending_; queued_.pop_front()) {
        batch.push_back(std::move(queued_.front()));
      }
    }
    const std::chrono::nanoseconds clock_offset =
        std::chrono::system_clock::now().time_since_epoch() -
        Span::Clock::now().time_since_epoch();
    spans.clear_spans();
    for (const Span& span : batch) AppendSpan(span, clock_offset, spans);
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
