#include "server/calls/compute_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <utility>

#include "server/calls/raw_message.h"
#include "server/calls/unary_call.h"

namespace topk {
namespace {

class ComputeCall final : public WorkCall {
 public:
  ComputeCall(TopKService& service, EventLoop& loop)
      : WorkCall(service, loop, service.method(Method::kComputeTopK)) {}

 private:
  void Accept() override { AcceptComputeTopK(service_, loop_); }

  int64_t WorkBytes(grpc::ByteBuffer& request) const override {
    return service_.WorkBytes(request);
  }

  void Compute() override {
    RawMessage<v1::TopKRequest> raw;
    grpc::ByteBuffer answer;
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
      : UnaryCall(service, loop, service.method(Method::kGetCapabilities)) {}

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
