// inference.GRPCInferenceService: TopK over the Open Inference Protocol.
// Requests are admitted, computed and recorded like those of topk.v1.
#pragma once

#include "server/calls/call_router.h"
#include "server/calls/shared_state.h"
#include "server/health/health_service.h"

namespace topk {

inline constexpr char kOipService[] = "inference.GRPCInferenceService";

/// Adds the methods of the service. `state` and `health` must outlive the
/// router.
void AddOipMethods(SharedState& state, HealthState& health, CallRouter& router);

}  // namespace topk
