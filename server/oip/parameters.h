// Sets operator attributes from the parameters of an Open Inference Protocol
// request.
#pragma once

#include <string>

#include "inference/grpc_service.pb.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Sets the operator's attributes and `request.index_offset` from parameters.
/// `attributes` is the submessage of `request` with the attributes. A parameter
/// has the name of its field in topk.v1. The parameter for an output's data
/// type is named e.g. "output_index.data_type". An enum value is a number or a
/// name in upper or lower case, with or without the prefix, e.g. "increasing".
/// Ignores parameters that the protocol reserves. Returns INVALID_ARGUMENT for
/// all other parameters.
Status SetParameters(
    const google::protobuf::Map<std::string, inference::InferParameter>& from,
    google::protobuf::Message& attributes, v1::TopKRequest& request);

/// Returns an integer parameter, or INVALID_ARGUMENT if it has another type.
Result<int64_t> ReadInteger(const std::string& name,
                            const inference::InferParameter& value);

/// Returns a string parameter, or INVALID_ARGUMENT if it has another type.
Result<std::string> ReadText(const std::string& name,
                             const inference::InferParameter& value);

}  // namespace topk
