#include "server/calls/many_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <utility>

#include "server/calls/group_call.h"
#include "server/calls/raw_message.h"
#include "server/calls/status_map.h"

namespace topk {
namespace {

class ManyCall final : public GroupCall {
 public:
  ManyCall(TopKService& service, EventLoop& loop)
      : GroupCall(service, loop, service.method(Method::kComputeTopKMany)) {}

 private:
  void Accept() override { AcceptComputeTopKMany(service_, loop_); }

  int64_t WorkBytes(grpc::ByteBuffer& request) const override {
    const auto own = static_cast<int64_t>(request.Length());
    RawMessage<v1::TopKRequest> raw;
    if (!service_.ReadsFirst(own) || !ReadRaw(request, raw).ok()) return own;
    return own + SharedBytes(raw.message);
  }

  grpc::ByteBuffer Compute(grpc::ByteBuffer& bytes, Tally& tally) override {
    RawMessage<v1::TopKRequest> request;
    v1::TopKResult result;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = service_.gate().Ask(visit(),
                                         static_cast<int64_t>(bytes.Length()));
          !s.ok()) {
        return s;
      }
      if (Status s = ReadRaw(bytes, request); !s.ok()) return s;
      return service_.Compute(request.message, request.data, Computing(), tally,
                              *result.mutable_response());
    });
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    result.set_request_id(request.message.request_id());
    grpc::ByteBuffer answer = WriteMessage(std::move(result));
    if (status.ok()) tally.Lap(Stage::kEncode);
    service_.Record(info(), request.message, tally, status);
    return answer;
  }
};

}  // namespace

void AcceptComputeTopKMany(TopKService& service, EventLoop& loop) {
  (new ManyCall(service, loop))->Wait();
}

}  // namespace topk
