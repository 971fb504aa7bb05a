// The state shared by all calls of topk.v1.TopKService. Contains no operator
// logic.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/call_router.h"
#include "server/calls/open_calls.h"
#include "server/calls/work_queue.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "topk/v1/topk.grpc.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Implements topk.v1.TopKService with an engine. Thread-safe.
///
/// Uses gRPC's completion queue API. In gRPC 1.51, the callback API delays some
/// calls by 50-100 ms after a second of idling, and the synchronous API uses a
/// thread for each open stream.
class TopKService {
 public:
  static const char* service_full_name() {
    return v1::TopKService::service_full_name();
  }

  /// All arguments must outlive the service. `threads` is the number of compute
  /// threads. A null `shared_objects` disables shared memory, and a null
  /// `spans` disables tracing spans.
  TopKService(const Engine& engine, Metrics& metrics, AccessLog& log,
              SpanExporter* spans, SharedObjects* shared_objects,
              AdmissionController& admission, int64_t max_message_bytes,
              int threads);

  /// Registers the methods. The service must outlive `router`.
  void AddMethods(CallRouter& router);

  AdmissionController& admission() { return admission_; }

  OpenCalls& open_calls() { return open_calls_; }

  /// The total size of tensors and responses so far, in bytes.
  int64_t bytes() const { return bytes_; }

  const Engine& engine() const { return engine_; }
  SpanExporter* spans() const { return spans_; }
  SharedObjects* shared_objects() const { return shared_objects_; }

  /// The queue for work that is too long for a poller.
  WorkQueue& work() { return work_; }

  /// Counts and logs one request's outcome.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

 private:
  v1::Capabilities GetCapabilities() const;

  const Engine& engine_;
  Metrics& metrics_;
  AccessLog& log_;
  SpanExporter* const spans_;
  SharedObjects* const shared_objects_;
  AdmissionController& admission_;
  const int64_t max_message_bytes_;
  OpenCalls open_calls_;
  std::atomic<int64_t> bytes_ = 0;
  WorkQueue work_;
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
                             "the server lacks memory for this request");
  }
}

}  // namespace topk
