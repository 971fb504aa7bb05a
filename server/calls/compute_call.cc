#include "server/calls/compute_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "server/calls/compute_request.h"
#include "server/calls/unary_call.h"

namespace topk {
namespace {

class ComputeCall final : public UnaryCall {
 public:
  ComputeCall(TopKService& service, EventLoop& loop)
      : UnaryCall(service, loop, service.method(Method::kComputeTopK)),
        request_(service, admitted()) {}

 private:
  void Accept() override { AcceptComputeTopK(service_, loop_); }
  Request& request() override { return request_; }

  ComputeRequest request_;
};

class CapabilitiesCall final : public SimpleCall {
 public:
  CapabilitiesCall(TopKService& service, EventLoop& loop)
      : SimpleCall(service, loop, service.method(Method::kGetCapabilities)) {}

 private:
  void Accept() override { AcceptGetCapabilities(service_, loop_); }

  Status Answer(grpc::ByteBuffer& message,
                grpc::ByteBuffer& response) override {
    v1::GetCapabilitiesRequest request;
    if (Status s = ReadMessage(message, request); !s.ok()) return s;
    WriteMessage(service_.GetCapabilities()).Swap(&response);
    return {};
  }
};

}  // namespace

void AcceptComputeTopK(TopKService& service, EventLoop& loop) {
  std::make_shared<ComputeCall>(service, loop)->Wait();
}

void AcceptGetCapabilities(TopKService& service, EventLoop& loop) {
  std::make_shared<CapabilitiesCall>(service, loop)->Wait();
}

}  // namespace topk
