#include "server/calls/service_call.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "core/common/methods.h"
#include "server/calls/compression.h"
#include "server/calls/parsed_message.h"

namespace topk {

ServiceCall::ServiceCall(SharedState& state, Call& call, Kind kind)
    : state_(state),
      call_(call),
      kind_(kind),
      info_{&call.context(),
            NameOf(call.context().method()),
            call.arrived(),
            {},
            "",
            nullptr} {
  state_.open_calls.Enter();
}

ServiceCall::~ServiceCall() {
  if (stream_.has_value()) state_.open_calls.streams().Remove(*stream_);
  state_.open_calls.Leave();
}

void ServiceCall::OnArrival() {
  ContinueTrace();
  const Status status = state_.admission.AdmitCall(call_.context(), admitted_);
  if (admitted_.caller.authenticated) info_.principal = admitted_.caller.name;
  if (!status.ok()) return call_.Finish(status);
  has_begun_ = kind_ != Kind::kUnary;
  call_.Read();
  if (kind_ == Kind::kUnary) return;
  stream_ = state_.open_calls.streams().Add(
      std::shared_ptr<Observer>(call_.shared_from_this(), this));
  OnChange();  // the result of AdmitCall() may be outdated
}

void ServiceCall::ContinueTrace() {
  // Returns the header's value if it occurs exactly once, otherwise "".
  const auto header = [this](const char* name) -> std::string {
    const auto [first, last] =
        call_.context().client_metadata().equal_range(name);
    if (first == last || std::next(first) != last) return "";
    return {first->second.data(), first->second.size()};
  };
  const std::string parent = header("traceparent");
  info_.trace =
      topk::ContinueTrace(parent, parent.empty() ? "" : header("tracestate"));
  SpanExporter* const spans = state_.spans;
  if (spans != nullptr && spans->Samples(info_.trace)) {
    span_ = std::make_unique<CallSpan>(*spans, call_.context().method(), info_,
                                       kind_ == Kind::kMany);
    info_.span = span_.get();
  }
  if (info_.trace.parent == 0) return;
  call_.set_trace_parent(ToTraceParent(info_.trace));
}

void ServiceCall::EnqueueJob(Size nanoseconds, WorkQueue::Work work) {
  state_.work.Enqueue(admitted_.caller.key, nanoseconds,
                      [self = call_.shared_from_this(),
                       work = std::move(work)] { return work(); });
}

void ServiceCall::OnChange() {
  const Status status = state_.admission.CheckAdmitted(call_.context());
  if (status.ok()) return;
  Interrupt(status);
  // If CheckAdmitted() fails again later, cancel the call, because Interrupt()
  // cannot end the stream of a client that does not read responses. Do not
  // cancel the call during a drain, because a drain has its own timeout.
  const bool drains = status.code == Code::kUnavailable;
  if (!drains && revoked_.exchange(true)) call_.context().TryCancel();
}

void ServiceCall::OnRead(bool ok, grpc::ByteBuffer& message) {
  if (!ok || !IsCompressed(message)) return OnMessage(ok, message);
  const auto bytes = static_cast<int64_t>(message.Length());
  const Status status = decompressing_.Add(Size(bytes) + SliceMemory(message));
  if (!status.ok()) return RefuseMessage(status, message);
  // The queue corrects this estimate by the time that the work takes.
  constexpr int64_t kNanosecondsPerByte = 10;
  Enqueue(Size(bytes) * kNanosecondsPerByte,
          [this, &message] { DecompressMessage(message); });
}

// `message` belongs to the call and stays valid until the next read.
void ServiceCall::DecompressMessage(grpc::ByteBuffer& message) {
  const Status status = CatchBadAlloc([&] {
    return Decompress(message, state_.max_message_bytes, "--max-message-bytes",
                      [this](Size bytes) {
                        const Status gone = call_.CheckAlive();
                        return gone.ok() ? decompressing_.Add(bytes) : gone;
                      });
  });
  if (!status.ok()) return RefuseMessage(status, message);
  // OnMessage() charges the content, like that of any other message.
  decompressing_.Shrink(0);
  OnMessage(true, message);
}

// Counts the bytes against the rate limit. Ends the call, or a stream after the
// responses to its earlier messages.
void ServiceCall::RefuseMessage(const Status& status,
                                grpc::ByteBuffer& message) {
  const auto received = static_cast<int64_t>(message.Length());
  state_.admission.DebitUnchecked(admitted_,
                                  std::max(received, decompressing_.bytes()));
  message.Clear();
  decompressing_.Shrink(0);
  kind_ == Kind::kUnary ? call_.Finish(status) : Interrupt(status);
}

void ServiceCall::OnMessage(bool ok, grpc::ByteBuffer& message) {
  constexpr std::chrono::seconds kLate{1};
  if (!ok) return call_.Finish(MissingMessage());
  if (std::chrono::steady_clock::now() - info_.arrived >= kLate) {
    const Status status = state_.admission.CheckAdmitted(call_.context());
    // UNAVAILABLE means that a drain has begun, but admitted calls may finish.
    if (!status.ok() && status.code != Code::kUnavailable) {
      message.Clear();
      return call_.Finish(status);
    }
  }
  has_begun_ = true;
  OnRequest(message);
}

void ServiceCall::Record(const Status& status) {
  has_begun_ ? RecordRequest(status) : ServiceCall::RecordRequest(status);
  if (span_ != nullptr) span_->End(status);
}

void ServiceCall::RecordRequest(const Status& status) {
  RequestStats stats;
  stats.begun = info_.arrived;
  state_.Record(info_, {}, stats, status);
}

}  // namespace topk
