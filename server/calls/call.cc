#include "server/calls/call.h"

#include <grpc/support/time.h>

#include <utility>

#include "server/calls/call_router.h"
#include "server/calls/status_map.h"

namespace topk {

Status MissingMessage() {
  return InvalidArgument("MESSAGE_MISSING", "",
                         "the call has no request message");
}

std::chrono::system_clock::time_point Call::Deadline() const {
  using std::chrono::system_clock;
  // Deadlines after the year 2262 would overflow in context_.deadline().
  constexpr auto kLast =
      std::chrono::floor<std::chrono::seconds>(system_clock::time_point::max());
  const gpr_timespec deadline =
      gpr_convert_clock_type(context_.raw_deadline(), GPR_CLOCK_REALTIME);
  if (deadline.tv_sec >= kLast.time_since_epoch().count()) {
    return system_clock::time_point::max();
  }
  return context_.deadline();
}

void Call::Wait() {
  const std::shared_ptr<Call> self = shared_from_this();
  grpc::ServerCompletionQueue& queue = loop_.queue();
  context_.AsyncNotifyWhenDone(ended_tag_.For(self));
  router_.rpc().RequestCall(&context_, &stream_, &queue, &queue,
                            arrived_tag_.For(self));
}

void Call::OnArrived(bool ok) {
  if (!ok) {  // the server is shutting down; gRPC will not return ended_tag_
    ended_tag_.Drop();
    return;
  }
  loop_.CountArrival();
  router_.AcceptMore(loop_);
  const CallRouter::Method& method = router_.Find(context_.method());
  arrived_ = std::chrono::steady_clock::now();
  metrics_ = &method.metrics;
  metrics_->CountStarted();
  if (!method.make_handler) return Finish(router_.UnknownMethod(context_));
  handler_ = method.make_handler(*this);
  handler_->OnArrival();
}

void Call::OnEnded(bool) {
  if (!context_.IsCancelled()) return;
  // The server computes a slightly later deadline than the client, because of
  // network latency and gRPC's rounding. Tolerate the difference.
  constexpr std::chrono::milliseconds kEarly{10};
  if (Deadline() > std::chrono::system_clock::now() + kEarly) {
    cancel_cause_ = Cancelled();
  } else {
    cancel_cause_ = {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED", "",
                     "the call's deadline has passed"};
  }
  cancellation_.Cancel();
}

void Call::Read() {
  stream_.Read(&incoming_, read_tag_.For(shared_from_this()));
  WidenRace();
}

void Call::OnRead(bool ok) {
  ok ? metrics_->CountReceived() : may_be_gone_.store(true);
  handler_->OnRead(ok, incoming_);
}

void Call::OnWritten(bool ok) {
  if (!ok) may_be_gone_ = true;
  handler_->OnWritten(ok);
}

void Call::Write(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  SendTraceParent();
  metrics_->CountSent();
  // The first write completes only when the initial metadata has been sent. A
  // buffer hint could delay the metadata forever, so clear the hint.
  if (!std::exchange(has_written_, true)) options.clear_buffer_hint();
  stream_.Write(message, options, written_tag_.For(shared_from_this()));
  WidenRace();
}

void Call::Finish(const grpc::ByteBuffer& last) {
  SendTraceParent();
  Record({});
  metrics_->CountSent();
  stream_.WriteAndFinish(last, {}, grpc::Status::OK,
                         finished_tag_.For(shared_from_this()));
  WidenRace();
}

void Call::SendTraceParent() {
  if (trace_parent_.empty()) return;
  context_.AddInitialMetadata("traceparent", trace_parent_);
  trace_parent_.clear();
}

void Call::Finish(const Status& status) {
  unrecorded_ = status;
  if (!may_be_gone_) Record(status);
  const auto wait = status.retry_after.count();
  if (status.code == Code::kResourceExhausted || wait > 0) {
    // Tell gRPC clients how long to wait before a retry. -1 forbids retries.
    context_.AddTrailingMetadata("grpc-retry-pushback-ms",
                                 std::to_string(wait > 0 ? wait : -1));
  }
  // If no message was sent, send `traceparent` in the trailers. In the initial
  // metadata, gRPC 1.83 would drop `traceparent`, and gRPC 1.51 would keep
  // clients from retrying the call.
  if (!trace_parent_.empty()) {
    context_.AddTrailingMetadata("traceparent", trace_parent_);
  }
  if (!has_written_) {
    is_refused_ = true;
    loop_.CountRefused();
  }
  stream_.Finish(ToGrpcStatus(status), finished_tag_.For(shared_from_this()));
  WidenRace();
}

void Call::Record(const Status& status) {
  unrecorded_.reset();
  if (handler_ != nullptr) handler_->Record(status);
  metrics_->CountHandled(status.code, arrived_);
}

Call::~Call() {
  if (is_refused_) loop_.CountDestroyed();
  if (metrics_ == nullptr) return;  // no call arrived
  loop_.CountEnd();
  if (!unrecorded_.has_value()) return;
  Record(cancel_cause_.ok() ? Status(*unrecorded_) : cancel_cause_);
}

}  // namespace topk
