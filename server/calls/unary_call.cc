#include <utility>

#include "server/calls/handlers.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {
namespace {

// Handles one request. A poller prepares a small message at once, and workers
// prepare all others. The same thread computes a small response at once, and
// workers compute all others. Only one thread at a time uses `request_`.
class UnaryCall final : public ServiceCall {
 public:
  UnaryCall(SharedState& state, Call& call, std::unique_ptr<Codec> codec)
      : ServiceCall(state, call),
        request_(state, info_, std::move(codec), call.arrived()) {}

 private:
  void OnRequest(grpc::ByteBuffer& message) override {
    const bool is_behind = call_.loop().IsBehind();
    if (is_behind || state_.work.IsBusy()) Compact(message);
    Status status = request_.Admit(message);
    if (!status.ok()) {
      request_.KeepIdOnly(kMaxParsedBytes);  // End() frees the memory at once
      return End(status);
    }
    if (!is_behind && request_.MayPrepareOnPoller()) return Prepare();
    if (status = CheckWait(); !status.ok()) return End(status);
    Enqueue(request_.nanoseconds(), [this] { Prepare(); });
  }

  void Prepare() {
    // The client may have given up while the call was queued.
    Status status = call_.CheckAlive();
    if (status.ok()) status = request_.Prepare();
    if (status.ok() && request_.MayRunOnPoller()) return Compute();
    if (status.ok()) status = CheckWait();
    if (!status.ok()) return End(status);
    Enqueue(
        request_.nanoseconds(), [this] { Compute(); }, /*computes=*/true);
  }

  Status CheckWait() {
    return state_.work.CheckDeadline(info_.caller.key, call_.Deadline());
  }

  void Compute() { End(WithCancelCause(request_.Run(&call_.cancellation()))); }

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
