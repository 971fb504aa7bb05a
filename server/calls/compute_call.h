// ComputeTopK and GetCapabilities: one message in, one out.
#pragma once

#include "server/calls/topk_service.h"

namespace topk {

/// Takes calls of ComputeTopK from the loop until the server shuts down.
void AcceptComputeTopK(TopKService& service, EventLoop& loop);

/// The same for GetCapabilities.
void AcceptGetCapabilities(TopKService& service, EventLoop& loop);

}  // namespace topk
