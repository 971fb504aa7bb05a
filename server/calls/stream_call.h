// StreamTopK: a tensor in chunks, its response in chunks.
#pragma once

#include <memory>

#include "server/calls/call.h"
#include "server/calls/topk_service.h"

namespace topk {

/// Returns a call of StreamTopK. All outlive it.
std::shared_ptr<Call> MakeStreamCall(TopKService& service, EventLoop& loop,
                                     const CallMethod& method);

}  // namespace topk
