// Translates a request of the Open Inference Protocol to topk.v1.
#pragma once

#include <string>

#include "server/calls/parsed_message.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Translates an inference request into `to`, which must be empty. Sets
/// `to.data` to the tensor's raw contents in `from`, if any. Returns
/// INVALID_ARGUMENT for inputs, outputs and parameters that the model does not
/// have, and for data in the wrong field. Also returns the errors of
/// Regions::Find(). Does not check the operator's rules.
Status ParseInfer(const ParsedInfer& from, const Model& model,
                  const Regions& regions, ParsedMessage<v1::TopKRequest>& to);

/// Translates the path of a field of topk.v1, e.g. `onnx.axis`, into a path in
/// the inference request, e.g. `parameters["axis"]`. Returns `field` itself if
/// the inference request has no such field.
std::string OipField(const std::string& field, const Model& model,
                     const inference::ModelInferRequest& request);

}  // namespace topk
