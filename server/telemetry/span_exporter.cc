#include "server/telemetry/span_exporter.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/telemetry/span_message.h"

namespace topk {
namespace {

// As OTLP has it: the collector asks for a retry by UNAVAILABLE. The call's
// deadline is for all attempts.
constexpr char kRetries[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {
    "maxAttempts": 4, "initialBackoff": "0.5s", "maxBackoff": "5s",
    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";
// A larger message than gRPC keeps for a retry by default.
constexpr int kRetryBytes = 4 << 20;
constexpr int kMaxReconnectMs = 5000;
constexpr char kAtExit[] = "the server exits before they are accepted";

std::shared_ptr<grpc::Channel> Connect(const TraceConfig& config) {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (config.endpoint.starts_with("https:")) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = config.authorities;
    credentials = grpc::SslCredentials(options);
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }
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

std::chrono::nanoseconds ClockOffset() {
  return std::chrono::system_clock::now().time_since_epoch() -
         std::chrono::nanoseconds(Span::Clock::now().time_since_epoch());
}

// Returns the bound below which a share of the numbers of 63 bits is.
uint64_t BoundOf(double ratio) { return static_cast<uint64_t>(ratio * 0x1p63); }

}  // namespace

SpanExporter::SpanExporter(const TraceConfig& config, spdlog::logger& log)
    : config_(config),
      sampled_below_(BoundOf(config.ratio)),
      stub_(TraceService::NewStub(Connect(config))),
      log_(log),
      request_(MakeExportRequest(config.resource)),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
  ended_.wait_for(lock, kFlush, [this] { return has_ended_; });
  given_up_ = true;
  lock.unlock();
  thread_.join();
}

bool SpanExporter::Samples(const TraceContext& trace) const {
  if (config_.follow_parent && trace.parent != 0) return trace.sampled;
  return trace.trace_low >> 1 < sampled_below_;
}

void SpanExporter::Add(Span span) {
  {
    const std::lock_guard lock(mutex_);
    if (held_ < kMaxQueued) {
      ++held_;
      queued_.push_back(std::move(span));
      if (queued_.size() == kMaxBatch) wake_.notify_one();
      return;
    }
  }
  queue_full_ += span.Count();
}

void SpanExporter::AddMetrics(MetricRegistry& registry) const {
  registry.AddCounter("topk_spans_exported_total",
                      "Spans that the collector has accepted",
                      [this] { return static_cast<double>(exported()); });
  const auto dropped = [&](const char* reason, auto count) {
    registry.AddCounter(
        "topk_spans_dropped_total", "Spans that did not reach the collector",
        [this, count] { return static_cast<double>((this->*count)()); },
        {{"reason", reason}});
  };
  dropped("queue_full", &SpanExporter::queue_full);
  dropped("export_failed", &SpanExporter::failed);
  dropped("rejected", &SpanExporter::rejected);
}

void SpanExporter::Run() {
  std::vector<Span> spans;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, kInterval,
                   [this] { return stopping_ || queued_.size() >= kMaxBatch; });
    if (queued_.empty()) {
      if (stopping_) break;
      continue;
    }
    spans.swap(queued_);
    lock.unlock();
    SendAll(spans);
    spans.clear();
    lock.lock();
  }
  has_ended_ = true;
  ended_.notify_one();
}

void SpanExporter::SendAll(const std::vector<Span>& spans) {
  for (size_t sent = 0; sent < spans.size();) {
    const size_t size = std::min(kMaxBatch, spans.size() - sent);
    const auto batch = std::span(spans).subspan(sent, size);
    SetSpans(batch, ClockOffset(), request_);
    int64_t count = 0;
    for (const Span& span : batch) count += span.Count();
    Send(count);
    sent += size;
    const std::lock_guard lock(mutex_);
    held_ -= size;
  }
}

void SpanExporter::Send(int64_t count) {
  int64_t rejected = 0;
  const grpc::Status status = Call(rejected);
  Log(status);
  if (!status.ok()) {
    failed_ += count;
    return;
  }
  rejected = std::clamp<int64_t>(rejected, 0, count);
  rejected_ += rejected;
  exported_ += count - rejected;
}

grpc::Status SpanExporter::Call(int64_t& rejected) {
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) return {grpc::StatusCode::CANCELLED, kAtExit};
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse answer;
  grpc::Status status;
  const auto call = stub_->AsyncExport(&context, request_, &queue_);
  call->Finish(&answer, &status, this);
  const bool awaited = Await(context);
  rejected = answer.partial_success().rejected_spans();
  if (!status.ok() && !awaited) return {grpc::StatusCode::CANCELLED, kAtExit};
  return status;
}

// Returns whether the call has ended by itself. A thread that waits in gRPC
// takes events from the server's pollers and wakes one for each: a fifth of all
// events, measured with gRPC 1.51. So this thread only looks, and the pollers
// move the call forward; at exit, without pollers, it waits.
bool SpanExporter::Await(grpc::ClientContext& context) {
  constexpr std::chrono::milliseconds kPause{10};
  bool given_up = false;
  bool stopping = false;
  void* tag = nullptr;
  bool ok = false;
  while (queue_.AsyncNext(
             &tag, &ok,
             std::chrono::system_clock::now() +
                 (stopping ? kPause : std::chrono::milliseconds(0))) ==
         grpc::CompletionQueue::TIMEOUT) {
    std::unique_lock lock(mutex_);
    stopping = wake_.wait_for(lock, kPause, [this] { return stopping_; });
    if (given_up_ && !std::exchange(given_up, true)) context.TryCancel();
  }
  return !given_up;
}

// A line for each change, not for each message.
void SpanExporter::Log(const grpc::Status& status) {
  if (failing_ == !status.ok()) return;
  failing_ = !status.ok();
  if (failing_) {
    log_.warn("traces: cannot send spans to {}: {}", config_.endpoint,
              EscapeControls(status.error_message().substr(0, 1024)));
  } else {
    log_.info("traces: spans are sent to {} again", config_.endpoint);
  }
}

}  // namespace topk
