// A request of the protocol in the terms of topk.v1.
#pragma once

#include "core/base/status.h"
#include "server/calls/raw_message.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Says in an empty request what is asked of a model. Returns the tensor's data
/// where it stays, in `from`; none if `to` has it, or names shared memory.
/// INVALID_ARGUMENT for inputs, outputs and parameters that the model has not,
/// and for data that is not where it should be; see Regions::Find(). What the
/// operator forbids the engine finds.
Result<Pieces> Understand(const RawInfer& from, const Model& model,
                          const Regions& regions, v1::TopKRequest& to);

/// Returns the protocol's path of a field of topk.v1, as far as it has one.
std::string OipField(const std::string& field, const Model& model);

}  // namespace topk
