#include "server/calls/shared_state.h"

#include <algorithm>
#include <string>

#include "core/common/process_limits.h"
#include "server/admission/memory_limit.h"
#include "server/telemetry/logging.h"

namespace topk {
namespace {

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
  limits.client_bytes =
      Or(config.max_client_inflight_bytes, limits.bytes - limits.bytes / 2);
  limits.calls = Or(config.max_inflight_calls, DefaultMaxCalls(memory));
  limits.client_calls =
      Or(config.max_client_inflight_calls, limits.calls - limits.calls / 2);
  return limits;
}

EngineOptions EngineOptionsOf(const ServerConfig& config, int threads,
                              spdlog::logger& log) {
  constexpr int kLinesPerSecond = 10;
  EngineOptions options{threads,
                        {config.max_elements, config.max_output_bytes,
                         config.max_selected_elements, config.max_rank},
                        {config.backend, config.device_memory_bytes, {}, {}}};
  auto limiter = std::make_shared<LineLimiter>(kLinesPerSecond);
  options.backends.log = [limiter, &log](const std::string& message) {
    if (limiter->Pass()) log.warn("{}", message);
  };
  options.backends.inform = [&log](const std::string& message) {
    log.info("{}", message);
  };
  return options;
}

}  // namespace

SharedState::SharedState(const ServerConfig& config,
                         const Authenticator& authenticator,
                         SpanExporter* span_exporter, spdlog::logger& log)
    : threads(ThreadsOf(config)),
      parallelism(tbb::global_control::max_allowed_parallelism,
                  static_cast<size_t>(threads)),
      access_log(log, config.access_log_sample,
                 static_cast<int64_t>(config.slow_request_seconds * 1e9)),
      spans(span_exporter),
      engine(EngineOptionsOf(config, threads, log)),
      shared_objects(
          config.allow_shared_memory
              ? std::make_unique<SharedObjects>(config.shared_memory_prefix)
              : nullptr),
      allow_cuda_memory(config.allow_cuda_memory),
      admission(authenticator, AdmissionLimitsOf(config),
                {config.security.client_requests_per_second,
                 config.security.client_bytes_per_second}),
      max_message_bytes(std::min(config.max_message_bytes,
                                 admission.in_flight().limits().client_bytes)) {
  if (allow_cuda_memory) {
    if (engine.found_devices().empty()) {
      log.warn("--allow-cuda-memory has no effect without a CUDA device");
    } else {
      log.info("CUDA memory is allowed");
    }
  }
  AddMetrics();
  if (spans != nullptr) spans->AddMetrics(*metrics.registry());
}

void SharedState::AddMetrics() {
  const v1::Capabilities capabilities = engine.GetCapabilities();
  metrics.SetBuild(capabilities.backends().rbegin()->instruction_set());
  MetricRegistry& registry = *metrics.registry();
  registry.AddGauge("topk_inflight_calls",
                    "Number of calls in flight, idle streams included",
                    [this] { return admission.in_flight().calls(); });
  registry.AddGauge("topk_inflight_bytes",
                    "Memory charged to calls in flight, in bytes",
                    [this] { return admission.in_flight().bytes(); });
  registry.AddGauge("topk_max_inflight_calls", "Max number of calls in flight",
                    [this] { return admission.in_flight().limits().calls; });
  registry.AddGauge("topk_max_inflight_bytes",
                    "Max memory charged to calls in flight, in bytes",
                    [this] { return admission.in_flight().limits().bytes; });
  registry.AddGauge("topk_queue_depth",
                    "Number of jobs queued or running on workers",
                    [this] { return work.jobs(); });
  registry.AddCounter(
      "topk_log_dropped_total",
      "Log lines dropped because they were not written fast enough",
      DroppedLines);
  registry.AddCounter(
      "topk_log_suppressed_total",
      "Log lines of failed or slow requests above the rate limit",
      [this] { return access_log.suppressed(); });
  AddDeviceMetrics();
}

void SharedState::AddDeviceMetrics() {
  const size_t devices = engine.Devices().size();
  if (devices == 0) return;
  MetricRegistry& registry = *metrics.registry();
  for (size_t i = 0; i < devices; ++i) {
    const prometheus::Labels labels = {{"device", std::to_string(i)}};
    registry.AddGauge(
        "topk_device_memory_bytes", "Device memory in use, in bytes",
        [this, i] { return engine.Devices()[i].memory_bytes; }, labels);
    registry.AddGauge(
        "topk_device_memory_limit_bytes",
        "Limit of the device memory in use, in bytes",
        [this, i] { return engine.Devices()[i].memory_limit; }, labels);
    registry.AddGauge(
        "topk_device_lost", "1 after the device has failed, 0 before",
        [this, i] { return engine.Devices()[i].lost; }, labels);
  }
  constexpr char kFallbacks[] = "topk_device_fallbacks_total";
  constexpr char kHelp[] =
      "Requests computed on the CPU because a device could not";
  registry.AddCounter(kFallbacks, kHelp,
                      [this] { return engine.fallbacks_lost(); },
                      {{"reason", "lost"}});
  registry.AddCounter(kFallbacks, kHelp,
                      [this] { return engine.fallbacks_full(); },
                      {{"reason", "memory"}});
}

}  // namespace topk
