#include "server/unary_call.h"

#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <utility>

#include "server/call.h"
#include "server/raw_message.h"
#include "server/status_map.h"

namespace topk {
namespace {

class UnaryCall : public Call {
 protected:
  using Call::Call;

  Status Admit() {
    return service_.Limit(caller(), 1, static_cast<int64_t>(request_.Length()));
  }
  void Send(const grpc::ByteBuffer& answer) {
    count().Sent();
    count().Handled(grpc::StatusCode::OK);
    Hold();
    responder_.Finish(answer, grpc::Status::OK, &finished_);
  }
  void Send(const Status& error) {
    const grpc::Status status = ToGrpcStatus(error);
    count().Handled(status.error_code());
    Hold();
    responder_.FinishWithError(status, &finished_);
  }

  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_{&context_};

 private:
  void Refuse(const Status& status) override { Send(status); }
  void Finish(bool) { Release(); }

  EventOf<UnaryCall, &UnaryCall::Finish> finished_{this};
};

class ComputeCall final : public UnaryCall {
 public:
  ComputeCall(TopKService& service, EventLoop& loop)
      : UnaryCall(service, loop,
                  service.rpc_metrics().Find(TopKService::kComputeTopK)) {
    service_.rpc().RequestComputeTopK(&context_, &request_, &responder_,
                                      &loop_.queue(), &loop_.queue(),
                                      &arrived_);
  }

 private:
  void Accept() override { AcceptComputeTopK(service_, loop_); }

  void Begin() override {
    count().Received();
    if (Status s = Admit(); !s.ok()) return Send(s);
    Hold();
    service_.Run(service_.WorkBytes(request_), [this] {
      Answer();
      Release();
    });
  }

  void Answer() {
    RawMessage<v1::TopKRequest> raw;
    Tally tally;
    grpc::ByteBuffer answer;
    const Status status = CatchBadAlloc([&]() -> Status {
      // It may have waited for a thread longer than its client for it.
      if (Status s = CheckAlive(); !s.ok()) return s;
      if (Status s = ReadRaw(request_, raw); !s.ok()) return s;
      v1::TopKResponse response;
      if (Status s = service_.Compute(raw, tally, response); !s.ok()) return s;
      answer = WriteMessage(std::move(response));
      return {};
    });
    // Before it is sent: whoever has an answer finds it in the metrics.
    service_.Record(context_, "ComputeTopK", raw.message, tally, status);
    status.ok() ? Send(answer) : Send(status);
  }
};

class CapabilitiesCall final : public UnaryCall {
 public:
  CapabilitiesCall(TopKService& service, EventLoop& loop)
      : UnaryCall(service, loop,
                  service.rpc_metrics().Find(TopKService::kGetCapabilities)) {
    service_.rpc().RequestGetCapabilities(&context_, &request_, &responder_,
                                          &loop_.queue(), &loop_.queue(),
                                          &arrived_);
  }

 private:
  void Accept() override { AcceptGetCapabilities(service_, loop_); }

  void Begin() override {
    count().Received();
    if (Status s = Admit(); !s.ok()) return Send(s);
    v1::GetCapabilitiesRequest request;
    if (Status s = ReadMessage(request_, request); !s.ok()) return Send(s);
    Send(WriteMessage(service_.GetCapabilities()));
  }
};

}  // namespace

void AcceptComputeTopK(TopKService& service, EventLoop& loop) {
  new ComputeCall(service, loop);
}

void AcceptGetCapabilities(TopKService& service, EventLoop& loop) {
  new CapabilitiesCall(service, loop);
}

}  // namespace topk
