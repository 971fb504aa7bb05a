#include "server/oip/stream_infer_call.h"

#include <utility>

#include "server/calls/group_call.h"
#include "server/calls/raw_message.h"
#include "server/calls/status_map.h"
#include "server/oip/infer.h"

namespace topk {
namespace {

class StreamInferCall final : public GroupCall {
 public:
  StreamInferCall(OipService& oip, EventLoop& loop)
      : GroupCall(oip.topk(), loop, oip.method(OipMethod::kModelStreamInfer)),
        oip_(oip) {}

 private:
  void Accept() override { AcceptModelStreamInfer(oip_, loop_); }

  int64_t WorkBytes(grpc::ByteBuffer& request) const override {
    return Infer(oip_).WorkBytes(request);
  }

  grpc::ByteBuffer Compute(grpc::ByteBuffer& bytes, Tally& tally) override {
    Infer infer(oip_);
    grpc::ByteBuffer message;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = service_.gate().Ask(visit(),
                                         static_cast<int64_t>(bytes.Length()));
          !s.ok()) {
        return s;
      }
      return infer.Run(bytes, Computing(), tally, InferMessage::kOfStream,
                       message);
    });
    if (!status.ok()) {
      inference::ModelStreamInferResponse answer;
      answer.set_error_message(ToRpcStatus(status).message());
      answer.mutable_infer_response()->set_id(infer.id());
      message = WriteMessage(std::move(answer));
    }
    infer.Record(info(), tally, status);
    return message;
  }

  OipService& oip_;
};

}  // namespace

void AcceptModelStreamInfer(OipService& oip, EventLoop& loop) {
  (new StreamInferCall(oip, loop))->Wait();
}

}  // namespace topk
