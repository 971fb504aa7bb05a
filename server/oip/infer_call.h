// ModelInfer: one request, one answer.
#pragma once

#include "server/oip/oip_service.h"

namespace topk {

/// Takes calls of ModelInfer from the loop until the server shuts down.
void AcceptModelInfer(OipService& oip, EventLoop& loop);

}  // namespace topk
