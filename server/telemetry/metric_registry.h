// The metrics of a server.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/common/mutex.h"

namespace topk {

/// Combines a prometheus-cpp registry with values that are computed at each
/// scrape. Metrics and series are never removed. Thread-safe.
class MetricRegistry {
 public:
  /// Returns the series with these labels, for the server to update. Creates
  /// the family and the series if they do not exist.
  prometheus::Counter& MakeCounter(const std::string& name,
                                   const std::string& help,
                                   const prometheus::Labels& labels = {}) {
    return prometheus::BuildCounter()
        .Name(name)
        .Help(help)
        .Register(updated_)
        .Add(labels);
  }
  prometheus::Histogram& MakeHistogram(
      const std::string& name, const std::string& help,
      const prometheus::Histogram::BucketBoundaries& bounds,
      const prometheus::Labels& labels = {}) {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Register(updated_)
        .Add(labels, bounds);
  }

  /// Computes the value of a series. Called at each scrape on a thread of the
  /// HTTP server, so everything that the function refers to must outlive the
  /// HTTP server. A counter's value must never decrease.
  using Value = std::function<double()>;
  void AddGauge(const std::string& name, const std::string& help, Value value,
                const prometheus::Labels& labels = {}) {
    Add(prometheus::MetricType::Gauge, name, help, std::move(value), labels);
  }
  void AddCounter(const std::string& name, const std::string& help, Value value,
                  const prometheus::Labels& labels = {}) {
    Add(prometheus::MetricType::Counter, name, help, std::move(value), labels);
  }

  /// Returns all families with their current values.
  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  struct ComputedFamily {
    prometheus::MetricFamily family;  // without values
    std::vector<Value> values;        // one per series
  };

  void Add(prometheus::MetricType type, const std::string& name,
           const std::string& help, Value value,
           const prometheus::Labels& labels);

  prometheus::Registry updated_;
  mutable Mutex mutex_;
  std::map<std::string, ComputedFamily> computed_
      TOPK_GUARDED_BY(mutex_);  // by name
};

}  // namespace topk
