// ComputeTopKMany: many requests on one stream.
#pragma once

#include <grpcpp/completion_queue.h>

#include "server/topk_service.h"

namespace topk {

/// Takes calls of ComputeTopKMany from the queue until the server shuts down.
void AcceptComputeTopKMany(TopKService& service,
                           grpc::ServerCompletionQueue& queue);

}  // namespace topk
