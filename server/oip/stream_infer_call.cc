#include "server/oip/stream_infer_call.h"

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
    return InferWorkBytes(oip_, request);
  }

  grpc::ByteBuffer Compute(grpc::ByteBuffer& bytes, Tally& tally) override {
    Infer infer(oip_);
    const auto answer = MakeCompact<inference::ModelStreamInferResponse>();
    inference::ModelInferResponse& response = *answer->mutable_infer_response();
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = service_.gate().Ask(visit(),
                                         static_cast<int64_t>(bytes.Length()));
          !s.ok()) {
        return s;
      }
      return infer.Run(bytes, Computing(), tally, response);
    });
    if (status.ok()) {
      // Every answer is its request's only one.
      (*response.mutable_parameters())["triton_final_response"].set_bool_param(
          true);
    } else {
      answer->set_error_message(ToRpcStatus(status).message());
      response.set_id(infer.id());
    }
    grpc::ByteBuffer message = WriteShared(answer);
    if (status.ok()) tally.Lap(Stage::kEncode);
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
