// An answer of topk.v1 in the terms of the protocol.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The message that holds an answer: ModelInfer's, or ModelStreamInfer's, which
/// says that it is its request's last.
enum class InferMessage { kOne, kOfStream };

/// Returns the bytes of the answer to a request. Each output has its raw
/// contents, empty ones if it was put into shared memory: clients count on it.
grpc::ByteBuffer WriteInfer(
    const std::shared_ptr<const v1::TopKResponse>& answer,
    const inference::ModelInferRequest& request, const Model& model,
    InferMessage message);

}  // namespace topk
