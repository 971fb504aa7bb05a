// StreamTopK: one tensor in pieces, its answer in pieces.
#pragma once

#include <grpcpp/completion_queue.h>

#include "server/topk_service.h"

namespace topk {

/// Takes calls of StreamTopK from the queue until the server shuts down.
void AcceptStreamTopK(TopKService& service, grpc::ServerCompletionQueue& queue);

}  // namespace topk
