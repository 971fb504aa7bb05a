// The topk_* metric families.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/telemetry/answer_counters.h"
#include "server/telemetry/metric_registry.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The service's own metrics. Thread-safe. Labels take values from fixed sets,
/// so their number is bounded whatever clients send.
class Metrics {
 public:
  Metrics();

  /// Records one answered or rejected request of a method, e.g. "ComputeTopK".
  void Record(std::string_view method, const v1::TopKRequest& request,
              const RequestStats& stats, const Status& status);

  /// Sets the gauge of whether the server serves.
  void SetReady(bool ready);

  /// Adds the metric of the build and the instruction set. Call it once.
  void SetBuild(const std::string& instruction_set);

  /// All that is scraped; others add theirs.
  const std::shared_ptr<MetricRegistry>& registry() const { return registry_; }

 private:
  struct OfOperator {
    prometheus::Histogram* compute_seconds;
    /// By Code.
    std::array<prometheus::Counter*, 17> requests;
  };
  template <size_t kSize>
  using Counters = std::array<prometheus::Counter*, kSize>;

  // How far a request had come that nobody waits for any more.
  enum class Progress { kBefore, kDuring, kAfter };

  template <size_t kSize, class Label>
  static void Count(const Counters<kSize>& counters, Label label) {
    counters[static_cast<size_t>(label)]->Increment();
  }

  OfOperator MakeOperator(const std::string& dialect,
                          const std::string& version);
  void RecordFailure(const RequestStats& stats, const Status& status);

  std::shared_ptr<MetricRegistry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& compute_seconds_;
  AnswerCounters answers_;
  Counters<kRejectionNames.size()> rejected_;
  Counters<3> cancelled_;
  std::array<prometheus::Histogram*, kStageNames.size()> stages_;
  /// By the method's name; filled by the constructor alone.
  std::vector<std::pair<std::string_view, prometheus::Histogram*>> methods_;
  prometheus::Histogram& tensor_bytes_;
  prometheus::Histogram& elements_;
  prometheus::Histogram& k_;
  prometheus::Gauge& ready_;
  /// By dialect and version; filled by the constructor alone.
  std::map<std::pair<int, int>, OfOperator> operators_;
  OfOperator unknown_operator_;
};

}  // namespace topk
