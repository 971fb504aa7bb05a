// Metrics of this process from the operating system.
#pragma once

#include "server/telemetry/metric_registry.h"

namespace topk {

/// The memory that this process has of the machine for itself alone, in bytes:
/// without files and shared memory.
double AnonymousBytes();

/// Adds the process_* metrics under the names that Prometheus's client
/// libraries share: memory, CPU time, file descriptors, threads, start time.
void AddProcessMetrics(MetricRegistry& registry);

}  // namespace topk
