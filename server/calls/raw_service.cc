#include "server/calls/raw_service.h"

#include <grpcpp/impl/rpc_service_method.h>

namespace topk {

RawService::RawService(std::span<const char* const> paths) : paths_(paths) {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  for (size_t i = 0; i < paths.size(); ++i) {
    // The service takes it.
    AddMethod(
        new RpcServiceMethod(paths[i], RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRaw(static_cast<int>(i));
  }
}

void RawService::Request(int method, grpc::ServerContext& context,
                         RawStream& stream, grpc::ServerCompletionQueue& queue,
                         void* tag) {
  RequestAsyncBidiStreaming(method, &context, &stream, &queue, &queue, tag);
}

}  // namespace topk
