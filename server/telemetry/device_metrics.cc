#include "server/telemetry/device_metrics.h"

#include <string>

namespace topk {

void AddDeviceMetrics(const Engine& engine, MetricRegistry& registry) {
  const size_t devices = engine.Devices().devices.size();
  for (size_t i = 0; i < devices; ++i) {
    const auto gauge = [&](const char* name, const char* help, auto value) {
      registry.AddGauge(
          name, help,
          [&engine, i, value] {
            return static_cast<double>(value(engine.Devices().devices[i]));
          },
          {{"device", std::to_string(i)}});
    };
    gauge("topk_device_memory_bytes", "Device memory in use, in bytes",
          [](const DeviceState& state) { return state.memory_bytes; });
    gauge("topk_device_memory_limit_bytes",
          "Limit of the device memory in use, in bytes",
          [](const DeviceState& state) { return state.memory_limit; });
    gauge("topk_device_lost", "1 after the device has failed, 0 before",
          [](const DeviceState& state) { return state.lost ? 1 : 0; });
  }
  const auto fallbacks = [&](const char* reason, auto value) {
    registry.AddCounter(
        "topk_device_fallbacks_total",
        "Requests computed on the CPU because a device could not",
        [&engine, value] {
          return static_cast<double>(value(engine.Devices()));
        },
        {{"reason", reason}});
  };
  fallbacks("lost",
            [](const DeviceReport& report) { return report.fallbacks_lost; });
  fallbacks("memory",
            [](const DeviceReport& report) { return report.fallbacks_full; });
}

}  // namespace topk
