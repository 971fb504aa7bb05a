// ComputeTopK and GetCapabilities: one message in, one out.
#pragma once

#include <grpcpp/completion_queue.h>

#include "server/topk_service.h"

namespace topk {

/// Takes calls of ComputeTopK from the queue until the server shuts down.
void AcceptComputeTopK(TopKService& service,
                       grpc::ServerCompletionQueue& queue);

/// The same for GetCapabilities.
void AcceptGetCapabilities(TopKService& service,
                           grpc::ServerCompletionQueue& queue);

}  // namespace topk
