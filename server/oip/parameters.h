// A request's parameters: the attributes of its operator, by their own names.
#pragma once

#include <string>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Sets the attributes of a request, whose message of them is there, and its
/// index_offset. A parameter is named as the field in topk.v1, a field within
/// one with a dot, e.g. "output_index.data_type"; an enum's value by its number
/// or by its name, with its prefix or without, e.g. "increasing". Parameters
/// that the protocol itself reserves are ignored. INVALID_ARGUMENT for all
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
