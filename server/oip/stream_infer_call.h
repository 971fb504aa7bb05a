// ModelStreamInfer: many requests on one stream, answers in order.
#pragma once

#include "server/oip/oip_service.h"

namespace topk {

/// Takes calls of ModelStreamInfer from the loop until the server shuts down.
void AcceptModelStreamInfer(OipService& oip, EventLoop& loop);

}  // namespace topk
