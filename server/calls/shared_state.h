// The state that the calls of topk.v1 and of the Open Inference Protocol share.
#pragma once

#include <cstdint>
#include <new>

#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/open_calls.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "server/threads/work_queue.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The parts of the server that handle requests. All parts are thread-safe.
struct SharedState {
  /// Counts and logs one request's outcome.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status) {
    metrics.Record(call.method, request, stats, status);
    log.Record(call, request, stats, status);
  }

  /// Returns the engine for accesses to CUDA memory, or null if CUDA memory is
  /// disabled.
  const Engine* cuda_memory() const {
    return allow_cuda_memory ? &engine : nullptr;
  }

  // These parts must outlive the state.
  const Engine& engine;
  Metrics& metrics;
  AccessLog& log;
  /// Null disables tracing.
  SpanExporter* const spans;
  /// Null disables shared memory.
  SharedObjects* const shared_objects;
  const bool allow_cuda_memory;
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
