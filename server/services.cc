#include "server/services.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/common/process_limits.h"
#include "server/admission/memory_limit.h"
#include "server/calls/topk_service.h"
#include "server/telemetry/logging.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {
namespace {

// How often to check if an open stream's credentials were revoked or expired.
constexpr std::chrono::seconds kRecheckInterval{2};

// Returns `set` if it is positive, otherwise `otherwise`.
int64_t Or(int64_t set, int64_t otherwise) { return set > 0 ? set : otherwise; }

// Rounded up, so that all CPUs are used.
int ThreadsOf(const ServerConfig& config) {
  return config.threads > 0 ? config.threads
                            : (AvailableProcessors() + config.instances - 1) /
                                  config.instances;
}

AdmissionLimits AdmissionLimitsOf(const ServerConfig& config) {
  const int64_t memory = MemoryLimit(config.instances);
  AdmissionLimits limits;
  limits.bytes = Or(config.max_inflight_bytes, DefaultInflightBytes(memory));
  limits.client_bytes = Or(config.max_client_inflight_bytes, limits.bytes / 2);
  limits.calls = Or(config.max_inflight_calls, DefaultMaxCalls(memory));
  limits.client_calls =
      Or(config.max_client_inflight_calls, limits.calls - limits.calls / 2);
  return limits;
}

BackendOptions BackendOptionsOf(const ServerConfig& config) {
  return {config.backend, config.device_memory_bytes, {}, {}};
}

EngineOptions EngineOptionsOf(const ServerConfig& config, int threads,
                              spdlog::logger& log) {
  constexpr int kLinesPerSecond = 10;
  EngineOptions options{threads,
                        {config.max_elements, config.max_output_bytes,
                         config.max_selected_elements, config.max_rank},
                        BackendOptionsOf(config)};
  auto limiter = std::make_shared<LineLimiter>(kLinesPerSecond);
  options.backends.log = [limiter, &log](const std::string& message) {
    if (limiter->Pass()) log.warn("{}", message);
  };
  options.backends.inform = [&log](const std::string& message) {
    log.info("{}", message);
  };
  return options;
}

std::vector<std::string> ServiceNames() {
  return {v1::TopKService::service_full_name(), OipService::service_full_name(),
          HealthService::kName};
}

}  // namespace

Status Services::CheckEnvironment(const ServerConfig& config) {
  Status status = topk::CheckEnvironment(BackendOptionsOf(config));
  if (!status.ok()) {
    status.message = StrCat(status.field, ": ", status.message);
  }
  return status;
}

Services::Services(const ServerConfig& config,
                   const Authenticator& authenticator, SpanExporter* spans,
                   spdlog::logger& log)
    : threads_(ThreadsOf(config)),
      parallelism_(tbb::global_control::max_allowed_parallelism,
                   static_cast<size_t>(threads_)),
      rpc_metrics_(*metrics_.registry(), ServiceNames()),
      access_log_(log, config.access_log_sample,
                  static_cast<int64_t>(config.slow_request_seconds * 1e9)),
      engine_(EngineOptionsOf(config, threads_, log)),
      shared_objects_(
          config.allow_shared_memory
              ? std::make_unique<SharedObjects>(config.shared_memory_prefix)
              : nullptr),
      admission_(authenticator, AdmissionLimitsOf(config),
                 {config.security.client_requests_per_second,
                  config.security.client_bytes_per_second}),
      health_state_(ServiceNames()),
      state_{engine_,
             metrics_,
             access_log_,
             spans,
             shared_objects_.get(),
             config.allow_cuda_memory,
             admission_,
             std::min(config.max_message_bytes,
                      admission_.in_flight().limits().client_bytes),
             threads_},
      oip_(state_, health_state_),
      health_(health_state_, DefaultMaxCalls(MemoryLimit(config.instances))),
      router_(rpc_metrics_, &authenticator) {
  AddTopKMethods(state_, router_);
  oip_.AddMethods(router_);
  health_.AddMethods(router_);
  if (authenticator.needs_credentials()) {
    rechecker_.emplace(kRecheckInterval,
                       [this] { open_calls().streams().Notify(); });
  }
  if (config.allow_cuda_memory) {
    if (engine_.found_devices().empty()) {
      log.warn("--allow-cuda-memory has no effect without a CUDA device");
    } else {
      log.info("CUDA memory is allowed");
    }
  }
  AddMetrics();
  if (spans != nullptr) spans->AddMetrics(*metrics_.registry());
}

void Services::AddMetrics() {
  const v1::Capabilities capabilities = engine_.GetCapabilities();
  metrics_.SetBuild(capabilities.backends().rbegin()->instruction_set());
  MetricRegistry& registry = *metrics_.registry();
  registry.AddGauge("topk_inflight_calls",
                    "Number of calls in flight, idle streams included",
                    [this] { return admission_.in_flight().calls(); });
  registry.AddGauge("topk_inflight_bytes",
                    "Memory charged to calls in flight, in bytes",
                    [this] { return admission_.in_flight().bytes(); });
  registry.AddGauge("topk_max_inflight_calls", "Max number of calls in flight",
                    [this] { return admission_.in_flight().limits().calls; });
  registry.AddGauge("topk_max_inflight_bytes",
                    "Max memory charged to calls in flight, in bytes",
                    [this] { return admission_.in_flight().limits().bytes; });
  registry.AddGauge("topk_queue_depth",
                    "Number of jobs queued or running on workers",
                    [this] { return state_.work.jobs(); });
  registry.AddCounter(
      "topk_log_dropped_total",
      "Log lines dropped because they were not written fast enough",
      DroppedLines);
  registry.AddCounter(
      "topk_log_suppressed_total",
      "Log lines of failed or slow requests above the rate limit",
      [this] { return access_log_.suppressed(); });
  AddDeviceMetrics();
}

void Services::AddDeviceMetrics() {
  const size_t devices = engine_.Devices().devices.size();
  if (devices == 0) return;
  MetricRegistry& registry = *metrics_.registry();
  for (size_t i = 0; i < devices; ++i) {
    const prometheus::Labels labels = {{"device", std::to_string(i)}};
    registry.AddGauge(
        "topk_device_memory_bytes", "Device memory in use, in bytes",
        [this, i] { return engine_.Devices().devices[i].memory_bytes; },
        labels);
    registry.AddGauge(
        "topk_device_memory_limit_bytes",
        "Limit of the device memory in use, in bytes",
        [this, i] { return engine_.Devices().devices[i].memory_limit; },
        labels);
    registry.AddGauge(
        "topk_device_lost", "1 after the device has failed, 0 before",
        [this, i] { return engine_.Devices().devices[i].lost; }, labels);
  }
  constexpr char kFallbacks[] = "topk_device_fallbacks_total";
  constexpr char kHelp[] =
      "Requests computed on the CPU because a device could not";
  registry.AddCounter(kFallbacks, kHelp,
                      [this] { return engine_.Devices().fallbacks_lost; },
                      {{"reason", "lost"}});
  registry.AddCounter(kFallbacks, kHelp,
                      [this] { return engine_.Devices().fallbacks_full; },
                      {{"reason", "memory"}});
}

}  // namespace topk
