// Metrics of this process from the operating system.
#pragma once

#include "server/telemetry/metric_registry.h"

namespace topk {

/// Returns the resident memory in bytes, excluding files and shared memory.
double AnonymousBytes();

/// Adds the process_* metrics, with the names of Prometheus's client libraries:
/// memory, CPU time, file descriptors, threads, start time.
void AddProcessMetrics(MetricRegistry& registry);

}  // namespace topk
