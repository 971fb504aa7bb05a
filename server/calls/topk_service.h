// The state shared by all calls of topk.v1.TopKService. Contains no operator
// logic.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <new>

#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/call_router.h"
#include "server/calls/open_calls.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "server/threads/work_queue.h"
#include "topk/v1/topk.grpc.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Implements topk.v1.TopKService with an engine. All parts are thread-safe.
///
/// Uses gRPC's completion queue API. In gRPC 1.51, the callback API delays some
/// calls by 50-100 ms after a second of idling, and the synchronous API uses a
/// thread for each open stream.
struct TopKService {
  static const char* service_full_name() {
    return v1::TopKService::service_full_name();
  }

  /// Registers the methods. The service must outlive `router`.
  void AddMethods(CallRouter& router);

  /// Counts and logs one request's outcome.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  v1::Capabilities GetCapabilities() const;

  // These parts must outlive the service.
  const Engine& engine;
  Metrics& metrics;
  AccessLog& log;
  /// Null disables tracing.
  SpanExporter* const spans;
  /// Null disables shared memory.
  SharedObjects* const shared_objects;
  AdmissionController& admission;
  const int64_t max_message_bytes;
  /// The number of compute threads.
  const int threads;

  OpenCalls open_calls = {};
  /// The queue for work that is too long for a poller.
  WorkQueue work{threads};
};

/// Returns the status from fn(). Converts std::bad_alloc, the only exception
/// our modules may throw, to RESOURCE_EXHAUSTED, because memory may be
/// available later.
template <class Fn>
auto CatchBadAlloc(const Fn& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("OUT_OF_MEMORY", "",
                             "the server lacks free memory for this request");
  }
}

}  // namespace topk
