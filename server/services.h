// The gRPC services of topkd and their shared state.
#pragma once

#include <spdlog/logger.h>
#include <tbb/global_control.h>

#include <memory>
#include <optional>

#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/call_router.h"
#include "server/calls/shared_state.h"
#include "server/config/config.h"
#include "server/health/health_service.h"
#include "server/oip/oip_service.h"
#include "server/security/authenticator.h"
#include "server/shared_memory/shared_objects.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/rpc_metrics.h"
#include "server/telemetry/span_exporter.h"
#include "server/threads/periodic.h"
#include "topk/status.h"

namespace topk {

/// The services of the main gRPC server. To receive calls, pass router() to the
/// server when starting it. Thread-safe.
class Services {
 public:
  /// Returns an error if the engine cannot work as configured.
  static Status CheckEnvironment(const ServerConfig& config);

  /// `authenticator`, `spans` and `log` must outlive this object. If `spans` is
  /// null, no spans are recorded. REQUIRES: CheckEnvironment() returned OK.
  Services(const ServerConfig& config, const Authenticator& authenticator,
           SpanExporter* spans, spdlog::logger& log);

  /// Routes calls to the services, which must outlive the gRPC server.
  CallRouter& router() { return router_; }

  /// The number of threads that compute.
  int threads() const { return threads_; }

  Metrics& metrics() { return metrics_; }
  const RpcMetrics& rpc_metrics() const { return rpc_metrics_; }
  AdmissionController& admission() { return admission_; }
  HealthState& health_state() { return health_state_; }
  OpenCalls& open_calls() { return state_.open_calls; }

 private:
  // Add the metrics whose values are computed at each scrape.
  void AddMetrics();
  void AddDeviceMetrics();

  const int threads_;
  // Lets oneTBB run this many threads, even if there are fewer CPUs.
  const tbb::global_control parallelism_;
  Metrics metrics_;
  RpcMetrics rpc_metrics_;
  AccessLog access_log_;
  Engine engine_;
  const std::unique_ptr<SharedObjects> shared_objects_;
  AdmissionController admission_;
  HealthState health_state_;
  SharedState state_;
  OipService oip_;
  HealthService health_;
  CallRouter router_;
  std::optional<Periodic>
      rechecker_;  // of streams, if callers need credentials
};

}  // namespace topk
