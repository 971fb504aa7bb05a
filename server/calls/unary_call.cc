#include "server/calls/unary_call.h"

namespace topk {

void UnaryCall::OnRead(bool ok, grpc::ByteBuffer& message) {
  if (!ok) return call_.FinishIncomplete(MissingMessage());
  const Status status = request_.Admit(
      message, info().arrived, RequestStats::Clock::now(),
      /*waits=*/service_.work().IsBusy() || call_.loop().IsBehind());
  if (!status.ok()) {
    Refuse(status);
    request_.ReleaseMessage();
  } else if (call_.loop().IsBehind()) {
    PrepareOnWorker();
  } else {
    Prepare(Reader::kPoller);
  }
}

void UnaryCall::Prepare(Reader reader) {
  // The client may have given up while the call was queued.
  if (const Status gone = call_.CheckAlive(); !gone.ok()) return End(gone);
  const StepStatus prepared = request_.Prepare(reader);
  if (NeedsWorker(prepared)) return PrepareOnWorker();
  if (!prepared->ok()) return End(*prepared);
  if (request_.RunsAtOnce()) return Compute();
  const Status late =
      service_.work().CheckDeadline(admitted().caller.key, call_.Deadline());
  if (!late.ok()) return End(late);
  Enqueue(request_.nanoseconds(), [this] { Compute(); });
}

void UnaryCall::PrepareOnWorker() {
  Enqueue(request_.nanoseconds(), [this] { Prepare(Reader::kWorker); });
}

void UnaryCall::Compute() {
  End(WithCancelCause(request_.Run(&call_.cancellation())));
}

void UnaryCall::End(const Status& status) {
  // Record before sending: once the client has the response, the metrics
  // include the request.
  request_.Record(info(), status);
  status.ok() ? call_.Finish(request_.response()) : call_.Finish(status);
  request_.ReleaseMessage();
}

void SimpleCall::OnRead(bool ok, grpc::ByteBuffer& message) {
  if (!ok) return call_.FinishIncomplete(MissingMessage());
  message_.Swap(&message);
  const auto bytes = static_cast<int64_t>(message_.Length());
  if (Status s = service_.admission().AdmitRequest(
          admitted(), bytes, SliceMemory(message_), charge_);
      !s.ok()) {
    return Refuse(s);
  }
  int64_t nanoseconds = method_.nanoseconds;
  if (bytes > kMaxPollerBytes && bytes <= kMaxParsedBytes) {
    nanoseconds += 1'000'000;  // parsing kMaxParsedBytes
  }
  if (nanoseconds == 0) return AnswerAndFinish();
  Compact(message_);
  Enqueue(nanoseconds, [this] {
    if (const Status gone = call_.CheckAlive(); !gone.ok())
      return call_.Finish(gone);
    AnswerAndFinish();
  });
}

void SimpleCall::AnswerAndFinish() {
  grpc::ByteBuffer response;
  const Status status = CatchBadAlloc(
      [&] { return method_.answer(message_, response, admitted().caller); });
  message_.Clear();
  charge_.Shrink(0);
  // Small responses are not charged, so that a probe that was admitted is
  // always answered.
  constexpr int64_t kAlwaysSent = int64_t{16} << 10;
  const auto bytes = static_cast<int64_t>(response.Length());
  if (status.ok() && bytes > kAlwaysSent) {
    const Status charged = charge_.Add(bytes);
    if (!charged.ok()) return Refuse(charged);
  }
  status.ok() ? call_.Finish(response) : call_.Finish(status);
}

}  // namespace topk
