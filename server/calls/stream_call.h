// StreamTopK: a tensor in chunks, its response in chunks.
#pragma once

#include <memory>

#include "server/calls/call.h"

namespace topk {

class TopKService;

/// Returns the handler of a call of StreamTopK. The service must outlive the
/// call.
std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call);

}  // namespace topk
