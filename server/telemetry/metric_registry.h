// The metrics of a server.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
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
        .Register(registry_)
        .Add(labels);
  }
  prometheus::Histogram& MakeHistogram(
      const std::string& name, const std::string& help,
      const prometheus::Histogram::BucketBoundaries& bounds,
      const prometheus::Labels& labels = {}) {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Register(registry_)
        .Add(labels, bounds);
  }

  /// Computes the value of a series. Called at each scrape on a thread of the
  /// HTTP server, so everything that the function refers to must outlive the
  /// HTTP server. A counter's value must never decrease.
  using Value = std::function<double()>;
  void AddGauge(const std::string& name, const std::string& help, Value value,
                const prometheus::Labels& labels = {}) {
    auto& gauge =
        prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(
            labels);
    AddUpdate([&gauge, value = std::move(value)] { gauge.Set(value()); });
  }
  void AddCounter(const std::string& name, const std::string& help, Value value,
                  const prometheus::Labels& labels = {}) {
    auto& counter = MakeCounter(name, help, labels);
    AddUpdate([&counter, value = std::move(value)] {
      counter.Increment(value() - counter.Value());
    });
  }

  /// Returns all families with their current values.
  std::vector<prometheus::MetricFamily> Collect() {
    const MutexLock lock(mutex_);
    for (const auto& update : updates_) update();
    return registry_.Collect();
  }

 private:
  void AddUpdate(std::function<void()> update) {
    const MutexLock lock(mutex_);
    updates_.push_back(std::move(update));
  }

  prometheus::Registry registry_;
  Mutex mutex_;
  std::vector<std::function<void()>> updates_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
