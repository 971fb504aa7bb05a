// Metrics of this process from the operating system.
#pragma once

#include "server/telemetry/metric_registry.h"

namespace topk {

/// Returns the resident memory in bytes, excluding files and shared memory.
double AnonymousBytes();

/// Adds the process_* metrics of memory, CPU time, file descriptors, threads
/// and start time, with the names that Prometheus's client libraries use.
void AddProcessMetrics(MetricRegistry& registry);

}  // namespace topk
