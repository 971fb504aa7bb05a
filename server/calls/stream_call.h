// StreamTopK receives a tensor in chunks and returns its response in chunks.
#pragma once

#include <memory>

#include "server/calls/call.h"

namespace topk {

class TopKService;

/// Returns the handler for a StreamTopK call. `service` must outlive the call.
std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call);

}  // namespace topk
