// Metrics of this process from the operating system.
#pragma once

#include "server/telemetry/metric_registry.h"

namespace topk {

/// Adds metrics of memory, CPU time, file descriptors, threads and start time.
/// Prometheus's client libraries use the same names, process_*.
void AddProcessMetrics(MetricRegistry& registry);

}  // namespace topk
