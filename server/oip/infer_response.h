// An answer of topk.v1 in the terms of the protocol.
#pragma once

#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Says the answer to a request in an empty message; the data is moved. Each
/// output has its raw contents, an empty one if it was put into shared memory:
/// clients count on it.
void Translate(v1::TopKResponse answer,
               const inference::ModelInferRequest& request, const Model& model,
               inference::ModelInferResponse& to);

}  // namespace topk
