#include "server/calls/service_call.h"

#include <algorithm>
#include <chrono>

#include "core/common/methods.h"
#include "server/calls/compression.h"
#include "server/calls/parsed_message.h"

namespace topk {

ServiceCall::ServiceCall(SharedState& state, Call& call, bool many)
    : state_(state),
      call_(call),
      info_{.context = &call.context(),
            .method = NameOf(call.context().method()),
            .arrived = call.arrived()},
      many_(many) {
  state_.open_calls.Enter();
}

ServiceCall::~ServiceCall() { state_.open_calls.Leave(); }

void ServiceCall::OnArrival() {
  info_.trace = TraceOf(call_.context());
  if (state_.spans != nullptr && state_.spans->Samples(info_.trace)) {
    info_.span = std::make_shared<CallSpan>(
        *state_.spans, call_.context().method(), info_, many_);
  }
  if (info_.trace.parent != 0) {
    call_.set_trace_parent(ToTraceParent(info_.trace));
  }
  const Status status = state_.admission.AdmitCall(info_);
  if (!status.ok()) return call_.Finish(status);
  call_.Read();
}

void ServiceCall::OnRead(bool ok, grpc::ByteBuffer& message) {
  if (!ok || !IsCompressed(message)) return OnMessage(ok, message);
  const auto bytes = static_cast<int64_t>(message.Length());
  const Status status = decompressing_.Add(Size(bytes) + SliceMemory(message));
  if (!status.ok()) return RefuseMessage(status, message);
  // If the work takes longer, the queue charges the client for that time.
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
  state_.admission.DebitUnchecked(info_,
                                  std::max(received, decompressing_.bytes()));
  message.Clear();
  decompressing_.Shrink(0);
  Interrupt(status, /*drains=*/false);
}

Status ServiceCall::CheckReceived(bool ok, grpc::ByteBuffer& message) const {
  constexpr std::chrono::seconds kLate{1};
  if (!ok) return MissingMessage();
  if (std::chrono::steady_clock::now() - info_.arrived < kLate) return {};
  const Status status = state_.admission.CheckCaller(info_);
  if (!status.ok()) message.Clear();
  return status;
}

void ServiceCall::Record(const Status& status) {
  RecordRequest(status);
  if (info_.span != nullptr) info_.span->End(status);
}

void ServiceCall::RecordRequest(const Status& status) {
  RequestStats stats;
  stats.begun = info_.arrived;
  state_.metrics.Record(info_.method, {}, stats, status);
  state_.access_log.Record(info_, {}, stats, status);
}

}  // namespace topk
