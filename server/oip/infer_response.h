// Translates a response of topk.v1 to the Open Inference Protocol.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The message of a response: that of ModelInfer, or that of ModelStreamInfer,
/// which marks the response as the last for its request.
enum class InferMessage { kOne, kOfStream };

/// Serializes the response to `request`. Each output has an element in
/// raw_output_contents, which is empty if the output is in shared memory:
/// clients rely on that.
grpc::ByteBuffer WriteInfer(
    const std::shared_ptr<const v1::TopKResponse>& answer,
    const inference::ModelInferRequest& request, const Model& model,
    InferMessage message);

}  // namespace topk
