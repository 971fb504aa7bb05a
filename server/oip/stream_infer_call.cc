#include "server/oip/stream_infer_call.h"

#include <memory>

#include "server/calls/group_call.h"
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

  std::unique_ptr<Request> MakeRequest() override {
    return std::make_unique<InferRequest>(oip_, admitted(),
                                          InferMessage::kOfStream);
  }

  OipService& oip_;
};

}  // namespace

void AcceptModelStreamInfer(OipService& oip, EventLoop& loop) {
  std::make_shared<StreamInferCall>(oip, loop)->Wait();
}

}  // namespace topk
