// inference.GRPCInferenceService: TopK over the Open Inference Protocol.
// Requests are admitted, computed and recorded like those of topk.v1.
#pragma once

#include <string>

#include "inference/grpc_service.grpc.pb.h"
#include "server/calls/call_router.h"
#include "server/calls/shared_state.h"
#include "server/health/health_service.h"
#include "server/oip/regions.h"
#include "server/oip/statistics.h"
#include "topk/status.h"

namespace topk {

/// Implements inference.GRPCInferenceService. Thread-safe.
class OipService {
 public:
  static const char* service_full_name() {
    return inference::GRPCInferenceService::service_full_name();
  }

  /// `state` and `health` must outlive the service.
  OipService(SharedState& state, HealthState& health)
      : state_(state),
        health_(health),
        regions_(state.shared_objects.get(), state.cuda_memory()) {}

  /// Adds the methods. The service must outlive the router.
  void AddMethods(CallRouter& router);

 private:
  // Adds a method whose messages hold no tensors; see AddSimpleMethod().
  template <class Request, class Response, class Answer>
  void Add(CallRouter& router, const char* name, Answer answer,
           int64_t nanoseconds = 0);

  SharedState& state_;
  HealthState& health_;
  Regions regions_;
  ModelStatistics statistics_;
};

}  // namespace topk
