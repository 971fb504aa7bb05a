#include "server/services.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/resources.h"
#include "server/telemetry/device_metrics.h"
#include "server/telemetry/logging.h"

namespace topk {
namespace {

// The services that compute, and health.
std::vector<std::string> ServiceNames() {
  return {TopKService::service_full_name(), OipService::service_full_name(),
          HealthService::kName};
}

std::vector<std::string> AndReflection(std::vector<std::string> names) {
  names.push_back(ReflectionService::NameOfV1());
  names.push_back(ReflectionService::NameOfV1Alpha());
  return names;
}

std::set<std::string> WithWholeServer(const std::vector<std::string>& names) {
  std::set<std::string> all(names.begin(), names.end());
  all.insert("");
  return all;
}

}  // namespace

Services::Services(const ServerConfig& config,
                   const Authenticator& authenticator, spdlog::logger& log)
    : rpc_metrics_(*metrics_.registry(), AndReflection(ServiceNames())),
      access_log_(log,
                  {config.access_log_sample,
                   static_cast<int64_t>(config.slow_request_seconds * 1e9)}),
      poller_busy_(*metrics_.registry(), log),
      engine_(OptionsOfEngine(config)),
      shared_objects_(
          config.allow_shared_memory
              ? std::make_unique<SharedObjects>(config.shared_memory_prefix)
              : nullptr),
      admission_(authenticator, LimitsInFlight(config),
                 {config.security.client_requests_per_second,
                  config.security.client_bytes_per_second}),
      health_state_(WithWholeServer(ServiceNames())),
      topk_(engine_, metrics_, rpc_metrics_, access_log_, shared_objects_.get(),
            admission_, config.max_message_bytes, ComputeThreads(config)),
      oip_(topk_, health_state_),
      health_(health_state_, rpc_metrics_),
      reflection_(ServiceNames(), rpc_metrics_, &authenticator),
      unknown_methods_(rpc_metrics_, &authenticator) {
  AddMetrics(log);
}

void Services::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&topk_.rpc());
  builder.RegisterService(&oip_.rpc());
  builder.RegisterService(&health_.rpc());
  builder.RegisterService(&reflection_.rpc());
  builder.RegisterAsyncGenericService(&unknown_methods_.rpc());
}

void Services::Start(EventLoop& loop) {
  topk_.Start(loop);
  oip_.Start(loop);
  health_.Start(loop);
  reflection_.Start(loop);
  unknown_methods_.Start(loop);
}

void Services::AddMetrics(const spdlog::logger& log) {
  const v1::Capabilities capabilities = engine_.GetCapabilities();
  metrics_.SetBuild(capabilities.backends().rbegin()->instruction_set());
  MetricRegistry& registry = *metrics_.registry();
  const InFlightLimiter& in_flight = admission_.in_flight();
  const auto value = [](auto function) {
    return [function] { return static_cast<double>(function()); };
  };
  registry.AddGauge("topk_inflight_calls",
                    "Number of calls in flight, idle streams included",
                    value([&in_flight] { return in_flight.calls(); }));
  registry.AddGauge("topk_inflight_bytes",
                    "Memory charged to calls in flight, in bytes",
                    value([&in_flight] { return in_flight.bytes(); }));
  registry.AddGauge("topk_max_inflight_calls", "Max number of calls in flight",
                    value([&in_flight] { return in_flight.limits().calls; }));
  registry.AddGauge("topk_max_inflight_bytes",
                    "Max memory charged to calls in flight, in bytes",
                    value([&in_flight] { return in_flight.limits().bytes; }));
  if (!engine_.Devices().devices.empty()) AddDeviceMetrics(engine_, registry);
  registry.AddGauge("topk_queue_depth",
                    "Number of jobs queued or running on workers",
                    value([this] { return topk_.work().jobs(); }));
  registry.AddCounter("topk_log_dropped_total",
                      "Log lines dropped because they were not written fast "
                      "enough",
                      value([&log] { return DroppedLines(log); }));
  registry.AddCounter("topk_log_suppressed_total",
                      "Log lines of failed or slow requests above the rate "
                      "limit",
                      value([this] { return access_log_.suppressed(); }));
}

}  // namespace topk
