// How long pollers are busy with single events.
#pragma once

#include <prometheus/histogram.h>
#include <spdlog/logger.h>

#include <chrono>

#include "server/telemetry/line_limiter.h"
#include "server/telemetry/metric_registry.h"

namespace topk {

/// Observes the CPU time of each event, and warns of events after which other
/// calls have waited noticeably: work that a poller should not have done.
/// Thread-safe.
class PollerBusy {
 public:
  /// An event that takes longer is a defect.
  static constexpr std::chrono::milliseconds kMaxBusy{100};

  /// Both outlive this.
  PollerBusy(MetricRegistry& registry, spdlog::logger& log);

  void Observe(std::chrono::nanoseconds busy);

 private:
  spdlog::logger& log_;
  prometheus::Histogram& histogram_;
  LineLimiter lines_{1};  // per second
};

}  // namespace topk
