#include "server/calls/unary_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <utility>

#include "server/calls/call.h"
#include "server/calls/raw_message.h"

namespace topk {
namespace {

// One message in, one out.
class UnaryCall : public Call {
 protected:
  using Call::Call;

  // Answers the message.
  virtual void Answer() = 0;

  // Whether its bytes may stay.
  Status Ask() {
    return service_.gate().Ask(visit(),
                               static_cast<int64_t>(request_.Length()));
  }

  grpc::ByteBuffer request_;
  Tally tally_;

 private:
  void Received(bool ok, grpc::ByteBuffer& message) override {
    if (!ok) {  // or it was too large: then gRPC has ended the call itself
      return Refuse(InvalidArgument("MESSAGE_MISSING", "",
                                    "the call has no request message"));
    }
    tally_.begun = info().arrived;
    tally_.Arrive(Tally::Clock::now());
    request_.Swap(&message);
    Answer();
  }
};

class ComputeCall final : public UnaryCall {
 public:
  ComputeCall(TopKService& service, EventLoop& loop)
      : UnaryCall(service, loop, Method::kComputeTopK) {}

 private:
  void Accept() override { AcceptComputeTopK(service_, loop_); }

  void Answer() override {
    const int64_t bytes = service_.WorkBytes(request_);
    Status status = Ask();
    if (status.ok()) {
      status = service_.work().CheckDeadline(bytes, context_.deadline());
    }
    if (!status.ok()) return Refuse(status);
    Hold();
    service_.work().Run(bytes, [this, bytes] {
      Compute();
      Release();
      return bytes;
    });
  }

  void Compute() {
    RawMessage<v1::TopKRequest> raw;
    grpc::ByteBuffer answer;
    tally_.Lap(Stage::kQueue);
    const Status status = CatchBadAlloc([&]() -> Status {
      // It may have waited for a thread longer than its client for it.
      if (Status s = CheckAlive(); !s.ok()) return s;
      if (Status s = ReadRaw(request_, raw); !s.ok()) return s;
      v1::TopKResponse response;
      if (Status s = service_.Compute(raw, Computing(), tally_, response);
          !s.ok()) {
        return Precisely(s);
      }
      answer = WriteMessage(std::move(response));
      tally_.Lap(Stage::kEncode);
      return {};
    });
    // Before it is sent: whoever has an answer finds it in the metrics.
    service_.Record(info(), raw.message, tally_, status);
    status.ok() ? Finish(answer) : Finish(status);
  }
};

class CapabilitiesCall final : public UnaryCall {
 public:
  CapabilitiesCall(TopKService& service, EventLoop& loop)
      : UnaryCall(service, loop, Method::kGetCapabilities) {}

 private:
  void Accept() override { AcceptGetCapabilities(service_, loop_); }

  void Answer() override {
    if (Status s = Ask(); !s.ok()) return Refuse(s);
    v1::GetCapabilitiesRequest request;
    if (Status s = ReadMessage(request_, request); !s.ok()) return Finish(s);
    Finish(WriteMessage(service_.GetCapabilities()));
  }
};

}  // namespace

void AcceptComputeTopK(TopKService& service, EventLoop& loop) {
  (new ComputeCall(service, loop))->Wait();
}

void AcceptGetCapabilities(TopKService& service, EventLoop& loop) {
  (new CapabilitiesCall(service, loop))->Wait();
}

}  // namespace topk
