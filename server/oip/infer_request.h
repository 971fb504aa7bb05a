// A request of the protocol in the terms of topk.v1.
#pragma once

#include "core/base/status.h"
#include "server/calls/raw_message.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Translates an inference request into `to`, which must be empty. Returns
/// views of the tensor's data in `from`; no views if `to` holds the data or
/// names shared memory. INVALID_ARGUMENT for inputs, outputs and parameters
/// that the model does not have, and for data in the wrong field; see also
/// Regions::Find(). The engine checks the rules of the operator.
Result<Pieces> Understand(const RawInfer& from, const Model& model,
                          const Regions& regions, v1::TopKRequest& to);

/// Returns the protocol's path of a field of topk.v1, if there is one: a
/// parameter of `request` or an input, which K may be.
std::string OipField(const std::string& field, const Model& model,
                     const inference::ModelInferRequest& request);

}  // namespace topk
