#include "server/oip/plain_call.h"

#include <memory>

#include "server/calls/raw_message.h"
#include "server/calls/unary_call.h"
#include "server/oip/oip_service.h"

namespace topk {
namespace {

// Reads a request, lets a function of the service answer it.
template <OipMethod kMethod, class Request, class Response>
class PlainCall final : public SimpleCall {
 public:
  using Function = Status (OipService::*)(const Request&, Response&);

  PlainCall(OipService& oip, EventLoop& loop, Function function)
      : SimpleCall(oip.topk(), loop, oip.method(kMethod)),
        oip_(oip),
        function_(function) {}

 private:
  void Accept() override {
    std::make_shared<PlainCall>(oip_, loop_, function_)->Wait();
  }

  Status Answer(grpc::ByteBuffer& message, grpc::ByteBuffer& to) override {
    Request request;
    if (Status s = ReadMessage(message, request); !s.ok()) return s;
    Response response;
    if (Status s = (oip_.*function_)(request, response); !s.ok()) return s;
    WriteMessage(std::move(response)).Swap(&to);
    return {};
  }

  OipService& oip_;
  const Function function_;
};

template <OipMethod kMethod, class Request, class Response>
void Take(OipService& oip, EventLoop& loop,
          Status (OipService::*function)(const Request&, Response&)) {
  std::make_shared<PlainCall<kMethod, Request, Response>>(oip, loop, function)
      ->Wait();
}

}  // namespace

void AcceptPlainCalls(OipService& oip, EventLoop& loop) {
  using S = OipService;
  Take<OipMethod::kServerLive>(oip, loop, &S::ServerLive);
  Take<OipMethod::kServerReady>(oip, loop, &S::ServerReady);
  Take<OipMethod::kModelReady>(oip, loop, &S::ModelReady);
  Take<OipMethod::kServerMetadata>(oip, loop, &S::ServerMetadata);
  Take<OipMethod::kModelMetadata>(oip, loop, &S::ModelMetadata);
  Take<OipMethod::kModelConfig>(oip, loop, &S::ModelConfig);
  Take<OipMethod::kModelStatistics>(oip, loop, &S::Statistics);
  Take<OipMethod::kRepositoryIndex>(oip, loop, &S::Index);
  Take<OipMethod::kSystemSharedMemoryStatus>(oip, loop, &S::SharedMemoryStatus);
  Take<OipMethod::kSystemSharedMemoryRegister>(oip, loop, &S::Register);
  Take<OipMethod::kSystemSharedMemoryUnregister>(oip, loop, &S::Unregister);
  Take<OipMethod::kCudaSharedMemoryUnregister>(oip, loop, &S::UnregisterCuda);
}

}  // namespace topk
