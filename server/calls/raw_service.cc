#include "server/calls/raw_service.h"

namespace topk {

RawService::RawService() {
  for (size_t method = 0; method < kMethodPaths.size(); ++method) {
    MarkMethodStreamed(static_cast<int>(method), nullptr);
    MarkMethodRaw(static_cast<int>(method));
  }
}

void RawService::Request(Method method, grpc::ServerContext& context,
                         RawStream& stream, grpc::ServerCompletionQueue& queue,
                         void* tag) {
  RequestAsyncBidiStreaming(static_cast<int>(method), &context, &stream, &queue,
                            &queue, tag);
}

}  // namespace topk
