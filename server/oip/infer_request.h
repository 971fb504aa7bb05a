// A request of the protocol in the terms of topk.v1.
#pragma once

#include "core/base/status.h"
#include "server/calls/raw_message.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Says what the request asks of a model. The data stays where it is, in
/// `from`, which outlives its use. INVALID_ARGUMENT for inputs, outputs and
/// parameters that the model has not, and for data that is not where it should
/// be; see Regions::Find(). What the operator forbids the engine finds.
Status Understand(const RawInfer& from, const Model& model,
                  const Regions& regions, RawMessage<v1::TopKRequest>& to);

/// Returns how many bytes of shared memory the request says that its inputs
/// have.
int64_t SharedBytes(const inference::ModelInferRequest& request);

/// Returns the protocol's path of a field of topk.v1, as far as it has one.
std::string OipField(const std::string& field, const Model& model);

}  // namespace topk
