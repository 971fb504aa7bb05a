// Elements that a request has one by one, made bytes.
#pragma once

#include <string>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"

namespace topk {

/// Returns the bytes of an input's typed contents as its type has them.
/// INVALID_ARGUMENT for contents of another type than the input's, for types
/// that have no field (FP16, BF16) and for numbers outside of the type's range.
Result<std::string> BytesOf(
    const inference::ModelInferRequest::InferInputTensor& input,
    const std::string& model);

}  // namespace topk
