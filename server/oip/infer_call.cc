#include "server/oip/infer_call.h"

#include <memory>

#include "server/calls/unary_call.h"
#include "server/oip/infer.h"

namespace topk {
namespace {

class InferCall final : public UnaryCall {
 public:
  InferCall(OipService& oip, EventLoop& loop)
      : UnaryCall(oip.topk(), loop, oip.method(OipMethod::kModelInfer)),
        oip_(oip),
        request_(oip, admitted(), InferMessage::kOne) {}

 private:
  void Accept() override { AcceptModelInfer(oip_, loop_); }
  Request& request() override { return request_; }

  OipService& oip_;
  InferRequest request_;
};

}  // namespace

void AcceptModelInfer(OipService& oip, EventLoop& loop) {
  std::make_shared<InferCall>(oip, loop)->Wait();
}

}  // namespace topk
