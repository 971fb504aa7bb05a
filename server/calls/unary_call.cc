#include <utility>

#include "server/calls/handlers.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {
namespace {

// Handles one request. The thread that gets the message (a poller, or a worker
// that has decompressed it) prepares a small message at once, unless events
// wait for pollers. It also computes at once what takes little time. Workers do
// all other steps. Only one thread at a time uses `request_`.
class UnaryCall final : public ServiceCall {
 public:
  UnaryCall(SharedState& state, Call& call, std::unique_ptr<Codec> codec)
      : ServiceCall(state, call),
        request_(state, info_, call.cancellation(), std::move(codec),
                 call.arrived()) {}

 private:
  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    Status status = CheckReceived(ok, message);
    if (!status.ok()) return call_.Finish(status);
    const bool is_behind = call_.loop().IsBehind();
    if (is_behind || state_.work.IsBusy()) Compact(message);
    status = request_.Admit(message);
    if (!status.ok()) return End(status);
    if (!is_behind && request_.MayPrepareOnPoller()) return Prepare();
    Queue([this] { Prepare(); });
  }

  void Prepare() {
    // The client may have given up while the call was queued.
    Status status = call_.CheckAlive();
    if (status.ok()) status = request_.Prepare();
    if (!status.ok()) return End(status);
    if (request_.MayRunOnPoller()) return Compute();
    Queue([this] { Compute(); }, /*computes=*/true);
  }

  // Runs the next step on a worker, unless it would start after the deadline.
  template <class Step>
  void Queue(Step step, bool computes = false) {
    const Status status =
        state_.work.CheckDeadline(info_.caller.key, call_.Deadline());
    if (!status.ok()) return End(status);
    Enqueue(request_.nanoseconds(), step, computes);
  }

  void Compute() { End(WithCancelCause(request_.Run())); }

  void End(const Status& status) {
    status.ok() ? call_.Finish(request_.response()) : call_.Finish(status);
    request_.ReleaseMessage();
  }

  void RecordRequest(const Status& status) override { request_.Record(status); }

  TensorRequest request_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeUnaryCall(SharedState& state, Call& call,
                                           std::unique_ptr<Codec> codec) {
  return std::make_unique<UnaryCall>(state, call, std::move(codec));
}

}  // namespace topk
