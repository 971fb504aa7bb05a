#include "server/oip/infer_call.h"

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

  int64_t WorkBytes() override {
    const int64_t bytes = infer_.WorkBytes(request_);
    if (infer_.read()) tally_.Lap(Stage::kDecode);
    return bytes;
  }

  void Compute() override {
    grpc::ByteBuffer answer;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = CheckAlive(); !s.ok()) return s;
      return Precisely(infer_.Run(request_, Computing(), tally_,
                                  InferMessage::kOne, answer));
    });
    infer_.Record(info(), tally_, status);
    status.ok() ? Finish(answer) : Finish(status);
  }

  OipService& oip_;
  Infer infer_{oip_};
};

}  // namespace

void AcceptModelInfer(OipService& oip, EventLoop& loop) {
  (new InferCall(oip, loop))->Wait();
}

}  // namespace topk
