#include <utility>

#include "server/calls/handlers.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {
namespace {

// Handles one request on the poller that received the message, unless the event
// loop is behind. A worker takes over at the first step that is too long for a
// poller. Only one thread at a time uses `request_`.
class UnaryCall final : public ServiceCall {
 public:
  UnaryCall(TopKService& service, Call& call, std::unique_ptr<Codec> codec)
      : ServiceCall(service, call, Kind::kUnary),
        request_(service, admitted(), std::move(codec)) {}

 private:
  void OnRequest(grpc::ByteBuffer& message) override {
    const Status status = request_.Admit(
        message, info().arrived, RequestStats::Clock::now(),
        /*waits=*/service_.work.IsBusy() || call_.loop().IsBehind());
    if (!status.ok()) {
      request_.KeepIdOnly(Size::kMax);  // End() frees the memory at once
      End(status);
    } else if (call_.loop().IsBehind()) {
      PrepareOnWorker();
    } else {
      Prepare(Reader::kPoller);
    }
  }

  void PrepareOnWorker() {
    Enqueue(request_.nanoseconds(), [this] { Prepare(Reader::kWorker); });
  }

  void Prepare(Reader reader) {
    // The client may have given up while the call was queued.
    if (const Status gone = call_.CheckAlive(); !gone.ok()) return End(gone);
    const StepStatus prepared = request_.Prepare(reader);
    if (NeedsWorker(prepared)) return PrepareOnWorker();
    if (!prepared->ok()) return End(*prepared);
    if (request_.MayRunOnPoller()) return Compute();
    const Status late =
        service_.work.CheckDeadline(admitted().caller.key, call_.Deadline());
    if (!late.ok()) return End(late);
    EnqueueComputation(request_.nanoseconds(), [this] { Compute(); });
  }

  void Compute() { End(WithCancelCause(request_.Run(&call_.cancellation()))); }

  void End(const Status& status) {
    // Record before sending; see Call::Finish().
    request_.Record(info(), status);
    status.ok() ? call_.Finish(request_.response()) : call_.Finish(status);
    request_.ReleaseMessage();
  }

  TensorRequest request_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeUnaryCall(TopKService& service, Call& call,
                                           std::unique_ptr<Codec> codec) {
  return std::make_unique<UnaryCall>(service, call, std::move(codec));
}

}  // namespace topk
