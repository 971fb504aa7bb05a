// ComputeTopKMany: many requests on one stream.
#pragma once

#include "server/calls/topk_service.h"

namespace topk {

/// Takes calls of ComputeTopKMany from the loop until the server shuts down.
void AcceptComputeTopKMany(TopKService& service, EventLoop& loop);

}  // namespace topk
