// All metrics of a server: what is scraped.
#pragma once

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/telemetry/exemplar.h"
#include "server/telemetry/histogram.h"

namespace topk {

/// Combines prometheus-cpp's registry with our histograms and with values that
/// are computed when they are scraped. Metrics and series are never removed.
/// Thread-safe.
class MetricRegistry {
 public:
  /// For counters and gauges that are set. Other types are not exposed.
  prometheus::Registry& prometheus() { return prometheus_; }

  /// Adds a series to a family of histograms, which is made by the first.
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const Buckets& buckets,
                          const prometheus::Labels& labels = {});

  /// Adds a series whose value is asked for at each scrape, by a thread of the
  /// HTTP server; what the function uses outlives that server. A counter's must
  /// never go down.
  using Value = std::function<double()>;
  void AddGauge(const std::string& name, const std::string& help, Value value,
                const prometheus::Labels& labels = {});
  void AddCounter(const std::string& name, const std::string& help, Value value,
                  const prometheus::Labels& labels = {});

  /// Returns all families with their values now.
  std::vector<prometheus::MetricFamily> Collect() const;

  /// Returns the exemplars. A Collect() that follows counts what they observed.
  Exemplars CollectExemplars() const;

 private:
  struct Series {
    std::vector<prometheus::ClientMetric::Label> labels;
    std::unique_ptr<Histogram> histogram;
    Value value;
  };
  struct Family {
    prometheus::MetricType type;
    std::string help;
    std::deque<Series> series;
  };

  Series& Add(prometheus::MetricType type, const std::string& name,
              const std::string& help, const prometheus::Labels& labels);

  prometheus::Registry prometheus_;
  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace topk
