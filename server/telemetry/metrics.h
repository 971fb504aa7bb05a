// The topk_* metrics of requests and pollers.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/common/mutex.h"
#include "server/telemetry/line_limiter.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/request_stats.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The service's own metrics. The number of series is bounded. Thread-safe.
class Metrics {
 public:
  Metrics();

  /// Records a finished request of a method, e.g. "ComputeTopK".
  void Record(std::string_view method, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  /// Records the CPU time that a poller spent on one event. Warns, at most once
  /// per second, if the event took so long that other calls had to wait.
  void RecordPollerBusy(std::chrono::nanoseconds busy, spdlog::logger& log);

  /// Sets the gauge that shows whether the server accepts calls.
  void SetReady(bool ready) { ready_ = ready; }

  /// Adds the build info metric, with `instruction_set` as a label. Call once.
  void SetBuild(const std::string& instruction_set);

  /// Returns the registry, to which other components add their metrics.
  const std::shared_ptr<MetricRegistry>& registry() const { return registry_; }

 private:
  struct OperatorMetrics {
    prometheus::Histogram* compute_seconds;
    std::map<Code, prometheus::Counter*> requests;
  };

  OperatorMetrics MakeOperatorMetrics(const std::string& dialect,
                                      const std::string& version);
  void RecordFailure(const RequestStats& stats, const Status& status);
  void CountAnswer(const std::string& backend, const std::string& kernel);

  const std::shared_ptr<MetricRegistry> registry_ =
      std::make_shared<MetricRegistry>();
  prometheus::Histogram& tensor_bytes_;
  prometheus::Histogram& elements_;
  prometheus::Histogram& k_;
  prometheus::Histogram& poller_busy_;
  LineLimiter poller_lines_{1};
  std::atomic<bool> ready_ = false;
  std::map<std::string_view, prometheus::Counter*> rejected_;   // by reason
  std::map<std::string_view, prometheus::Counter*> cancelled_;  // by progress
  std::array<prometheus::Histogram*, kStageNames.size()> stages_;
  std::map<std::string_view, prometheus::Histogram*> methods_;
  // By dialect and version.
  std::map<std::pair<int, int>, OperatorMetrics> operators_;
  OperatorMetrics unknown_operator_;

  Mutex mutex_;
  // By backend and kernel.
  std::map<std::pair<std::string, std::string>, prometheus::Counter*> answers_
      TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
