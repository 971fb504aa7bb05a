#include <utility>

#include "server/calls/handlers.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {
namespace {

// Answers one request.
class UnaryCall final : public ServiceCall {
 public:
  UnaryCall(SharedState& state, Call& call, std::unique_ptr<Codec> codec)
      : ServiceCall(state, call),
        request_(state, info_, call.cancellation(), std::move(codec),
                 call.arrived()) {}

 private:
  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    Status received = CheckReceived(ok, message);
    if (!received.ok()) return call_.Finish(received);
    if (call_.loop().IsBehind() || state_.work.IsBusy()) Compact(message);
    const Status status = request_.Admit(message);
    if (!status.ok()) return End(status);
    AnswerRequest(request_, [this](const Status& answered) { End(answered); });
  }

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
