// StreamTopK: one tensor in pieces, its answer in pieces.
#pragma once

#include "server/calls/topk_service.h"

namespace topk {

/// Takes calls of StreamTopK from the loop until the server shuts down.
void AcceptStreamTopK(TopKService& service, EventLoop& loop);

}  // namespace topk
