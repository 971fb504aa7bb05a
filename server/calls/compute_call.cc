#include "server/calls/compute_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <optional>
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

  int64_t WorkBytes() override {
    const auto own = static_cast<int64_t>(request_.Length());
    if (!service_.ReadsFirst(own)) return own;
    const bool valid = ReadOnce().ok();
    tally_.Lap(Stage::kDecode);
    return valid ? own + SharedBytes(raw_.message) : own;
  }

  void Compute() override {
    grpc::ByteBuffer answer;
    const Status status = CatchBadAlloc([&]() -> Status {
      // It may have waited for a thread longer than its client for it.
      if (Status s = CheckAlive(); !s.ok()) return s;
      if (const Status& s = ReadOnce(); !s.ok()) return s;
      v1::TopKResponse response;
      if (Status s = service_.Compute(raw_.message, raw_.data, Computing(),
                                      tally_, response);
          !s.ok()) {
        return Precisely(s);
      }
      answer = WriteMessage(std::move(response));
      tally_.Lap(Stage::kEncode);
      return {};
    });
    // Before it is sent: whoever has an answer finds it in the metrics.
    service_.Record(info(), raw_.message, tally_, status);
    status.ok() ? Finish(answer) : Finish(status);
  }

  const Status& ReadOnce() {
    if (!read_.has_value()) {
      read_ = CatchBadAlloc([&] { return ReadRaw(request_, raw_); });
    }
    return *read_;
  }

  RawMessage<v1::TopKRequest> raw_;
  std::optional<Status> read_;
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
