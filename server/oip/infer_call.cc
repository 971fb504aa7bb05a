#include "server/oip/infer_call.h"

#include "server/calls/raw_message.h"
#include "server/calls/unary_call.h"
#include "server/oip/infer.h"

namespace topk {
namespace {

class InferCall final : public WorkCall {
 public:
  InferCall(OipService& oip, EventLoop& loop)
      : WorkCall(oip.topk(), loop, oip.method(OipMethod::kModelInfer)),
        oip_(oip) {}

 private:
  void Accept() override { AcceptModelInfer(oip_, loop_); }

  int64_t WorkBytes(grpc::ByteBuffer& request) const override {
    return InferWorkBytes(oip_, request);
  }

  void Compute() override {
    Infer infer(oip_);
    grpc::ByteBuffer answer;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = CheckAlive(); !s.ok()) return s;
      const auto response = MakeCompact<inference::ModelInferResponse>();
      if (Status s = infer.Run(request_, Computing(), tally_, *response);
          !s.ok()) {
        return Precisely(s);
      }
      answer = WriteShared(response);
      tally_.Lap(Stage::kEncode);
      return {};
    });
    infer.Record(info(), tally_, status);
    status.ok() ? Finish(answer) : Finish(status);
  }

  OipService& oip_;
};

}  // namespace

void AcceptModelInfer(OipService& oip, EventLoop& loop) {
  (new InferCall(oip, loop))->Wait();
}

}  // namespace topk
