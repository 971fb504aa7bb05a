#include "server/auxiliary/unknown_methods.h"

#include <memory>

namespace topk {
namespace {

class UnknownCall final : public AuxiliaryCall {
 public:
  using AuxiliaryCall::AuxiliaryCall;

 private:
  std::shared_ptr<Call> Next() const override {
    return std::make_shared<UnknownCall>(loop_, method());
  }

  void Begin() override {
    Finish(
        Unimplemented("METHOD_UNKNOWN", "", "the server has no such method"));
  }
  void Received(grpc::ByteBuffer&) override {}
  void ReceivedAll() override {}
};

}  // namespace

UnknownMethods::UnknownMethods(const RpcMetrics& metrics,
                               const Authenticator* authenticator)
    : method_{{[this](grpc::GenericServerContext& context, RawStream& stream,
                      grpc::ServerCompletionQueue& queue, void* tag) {
                 rpc_.RequestCall(&context, &stream, &queue, &queue, tag);
               },
               "", metrics.Find("")},
              authenticator} {}

void UnknownMethods::Start(EventLoop& loop) {
  std::make_shared<UnknownCall>(loop, method_)->Wait();
}

}  // namespace topk
