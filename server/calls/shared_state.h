// The state that the calls of topk.v1 and of the Open Inference Protocol share.
#pragma once

#include <spdlog/logger.h>
#include <tbb/global_control.h>

#include <cstdint>
#include <memory>
#include <new>

#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/access_log.h"
#include "server/calls/call_span.h"
#include "server/calls/open_calls.h"
#include "server/config/config.h"
#include "server/security/authenticator.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "server/threads/work_queue.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The parts of the server that handle requests. All parts are thread-safe.
struct SharedState {
  /// `authenticator`, `spans` and `log` must outlive this object. REQUIRES: the
  /// engine can work as configured; see CheckEnvironment().
  SharedState(const ServerConfig& config, const Authenticator& authenticator,
              SpanExporter* spans, spdlog::logger& log);

  /// Records the outcome of one request in the metrics, the log and the trace.
  void Record(const CallInfo& call, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status) {
    if (call.span != nullptr) call.span->AddRequest(request, stats, status);
    metrics.Record(call.method, request, stats, status);
    access_log.Record(call, request, stats, status);
  }

  /// Returns the engine for accesses to CUDA memory, or null if CUDA memory is
  /// disabled.
  const Engine* cuda_memory() const {
    return allow_cuda_memory ? &engine : nullptr;
  }

  /// The number of compute threads.
  const int threads;
  /// Lets oneTBB run this many threads, even if there are fewer CPUs.
  const tbb::global_control parallelism;
  Metrics metrics;
  AccessLog access_log;
  /// Null disables tracing.
  SpanExporter* const spans;
  const Engine engine;
  /// Null disables shared memory.
  const std::unique_ptr<SharedObjects> shared_objects;
  const bool allow_cuda_memory;
  AdmissionController admission;
  const int64_t max_message_bytes;
  OpenCalls open_calls;
  /// The queue for work that is too long for a poller.
  WorkQueue work{threads};

 private:
  // Add the metrics whose values are computed at each scrape.
  void AddMetrics();
  void AddDeviceMetrics();
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
