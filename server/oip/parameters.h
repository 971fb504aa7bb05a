// The parameters of a request of the Open Inference Protocol, which set the
// attributes of the operator.
#pragma once

#include <string>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Sets the attributes of the operator, and `request.index_offset`, from
/// parameters. `attributes` is the submessage of `request` that has them. A
/// parameter has the name of its field in topk.v1. The data type of an output
/// is e.g. "output_index.data_type". An enum's value is its number or its name,
/// with or without its prefix, in upper or lower case, e.g. "increasing".
/// Ignores parameters that the protocol reserves. INVALID_ARGUMENT for all
/// others.
Status SetParameters(
    const google::protobuf::Map<std::string, inference::InferParameter>& from,
    google::protobuf::Message& attributes, v1::TopKRequest& request);

/// Returns an integer parameter. INVALID_ARGUMENT if it has another type.
Result<int64_t> ReadInteger(const std::string& name,
                            const inference::InferParameter& value);

/// Returns a string parameter. INVALID_ARGUMENT if it has another type.
Result<std::string> ReadText(const std::string& name,
                             const inference::InferParameter& value);

}  // namespace topk
