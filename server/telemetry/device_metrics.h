// Metrics of compute devices other than the CPU.
#pragma once

#include "core/engine.h"
#include "server/telemetry/metric_registry.h"

namespace topk {

/// Adds the topk_device_* metrics, a series for each device by its number, and
/// topk_device_fallbacks_total. The engine outlives the registry's scrapes.
void AddDeviceMetrics(const Engine& engine, MetricRegistry& registry);

}  // namespace topk
