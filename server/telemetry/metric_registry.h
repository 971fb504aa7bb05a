// All metrics of a server: what is scraped.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace topk {

/// Combines a prometheus-cpp registry with values that are computed at each
/// scrape. Metrics and series are never removed. Thread-safe.
class MetricRegistry final : public prometheus::Collectable {
 public:
  /// The registry of the metrics that the server updates.
  prometheus::Registry& prometheus() { return prometheus_; }

  /// Adds a series whose value `value` returns at each scrape, on a thread of
  /// the HTTP server. Whatever `value` refers to must outlive that server. The
  /// value of a counter must never decrease.
  using Value = std::function<double()>;
  void AddGauge(const std::string& name, const std::string& help, Value value,
                const prometheus::Labels& labels = {});
  void AddCounter(const std::string& name, const std::string& help, Value value,
                  const prometheus::Labels& labels = {});

  /// Returns all families with their current values.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Series {
    std::vector<prometheus::ClientMetric::Label> labels;
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
