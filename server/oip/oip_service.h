// inference.GRPCInferenceService: TopK over the Open Inference Protocol.
// Requests are admitted, computed and recorded by TopKService.
#pragma once

#include <string>

#include "core/base/status.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/calls/call_router.h"
#include "server/calls/topk_service.h"
#include "server/health/health_service.h"
#include "server/oip/regions.h"
#include "server/oip/statistics.h"

namespace topk {

/// Implements inference.GRPCInferenceService. Thread-safe.
class OipService {
 public:
  static const char* service_full_name() {
    return inference::GRPCInferenceService::service_full_name();
  }

  /// `topk` and `health` must outlive the service.
  OipService(TopKService& topk, HealthState& health)
      : topk_(topk), health_(health), regions_(topk.shared_objects) {}

  /// Adds the methods. The service must outlive the router.
  void AddMethods(CallRouter& router);

 private:
  // Adds a method whose messages hold no tensors; see AddSimpleMethod().
  template <class Request, class Response, class Answer>
  void Add(CallRouter& router, const char* name, Answer answer,
           int64_t nanoseconds = 0);

  TopKService& topk_;
  HealthState& health_;
  Regions regions_;
  ModelStatistics statistics_;
};

}  // namespace topk
