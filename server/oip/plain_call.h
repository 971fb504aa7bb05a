// The protocol's methods that take no work.
#pragma once

#include "server/calls/event_loop.h"

namespace topk {

class OipService;

/// Takes calls of all of them from the loop until the server shuts down.
void AcceptPlainCalls(OipService& oip, EventLoop& loop);

}  // namespace topk
