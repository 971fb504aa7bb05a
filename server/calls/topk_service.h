// The methods of topk.v1.TopKService.
#pragma once

#include "server/calls/call_router.h"
#include "server/calls/shared_state.h"

namespace topk {

/// Adds the methods of topk.v1.TopKService. `state` must outlive the router.
///
/// The server uses gRPC's completion queue API. In gRPC 1.51, the callback API
/// delays some calls by 50-100 ms after a second of idling, and the synchronous
/// API uses a thread for each open stream.
void AddTopKMethods(SharedState& state, CallRouter& router);

}  // namespace topk
