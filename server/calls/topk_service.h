// topk.v1.TopKService: what its calls share. No operator logic.
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

/// topk.v1.TopKService over an engine. Thread-safe.
///
/// On gRPC's completion queue. Its callback API answers some calls 50-100 ms
/// late after a second of idling; its synchronous one takes a thread for each
/// open stream (gRPC 1.51).
class TopKService {
 public:
  /// The service's name in the contract.
  static const char* service_full_name() {
    return v1::TopKService::service_full_name();
  }

  /// All of them must outlive the service. `threads` is the number of threads
  /// that compute. Without `shared_objects` (null) no shared memory is allowed;
  /// without `spans` (null) no spans are made.
  TopKService(const Engine& engine, Metrics& metrics, AccessLog& log,
              SpanExporter* spans, SharedObjects* shared_objects,
              AdmissionController& admission, int64_t max_message_bytes,
              int threads);

  /// Adds the methods. The service must outlive the router.
  void AddMethods(CallRouter& router);

  /// Admits calls and requests.
  AdmissionController& admission() { return admission_; }

  /// The calls in flight.
  OpenCalls& open_calls() { return open_calls_; }

  /// Bytes of tensors and answers so far.
  int64_t bytes() const { return bytes_; }

  const Engine& engine() const { return engine_; }
  SpanExporter* spans() const { return spans_; }
  SharedObjects* shared_objects() const { return shared_objects_; }

  /// Where calls have their work done.
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

/// Returns fn(), a status. Turns the one exception that our modules let through
/// into a status: the process has no memory for this request now, but may
/// later.
template <class Fn>
auto CatchBadAlloc(const Fn& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("OUT_OF_MEMORY", "",
                             "the server has no memory for this request");
  }
}

}  // namespace topk
