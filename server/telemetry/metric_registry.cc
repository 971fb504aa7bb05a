#include "server/telemetry/metric_registry.h"

#include <utility>

namespace topk {

using prometheus::ClientMetric;
using prometheus::MetricType;

// The mutex is held.
MetricRegistry::Series& MetricRegistry::Add(MetricType type,
                                            const std::string& name,
                                            const std::string& help,
                                            const prometheus::Labels& labels) {
  Family& family =
      families_.try_emplace(name, Family{type, help, {}}).first->second;
  Series& series = family.series.emplace_back();
  for (const auto& [label, value] : labels) {
    series.labels.push_back({label, value});
  }
  return series;
}

void MetricRegistry::AddGauge(const std::string& name, const std::string& help,
                              Value value, const prometheus::Labels& labels) {
  const std::lock_guard lock(mutex_);
  Add(MetricType::Gauge, name, help, labels).value = std::move(value);
}

void MetricRegistry::AddCounter(const std::string& name,
                                const std::string& help, Value value,
                                const prometheus::Labels& labels) {
  const std::lock_guard lock(mutex_);
  Add(MetricType::Counter, name, help, labels).value = std::move(value);
}

std::vector<prometheus::MetricFamily> MetricRegistry::Collect() const {
  std::vector<prometheus::MetricFamily> result = prometheus_.Collect();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) {
    prometheus::MetricFamily& out = result.emplace_back();
    out.name = name;
    out.help = family.help;
    out.type = family.type;
    for (const Series& series : family.series) {
      ClientMetric& metric = out.metric.emplace_back();
      metric.label = series.labels;
      if (family.type == MetricType::Counter) {
        metric.counter.value = series.value();
      } else {
        metric.gauge.value = series.value();
      }
    }
  }
  return result;
}

}  // namespace topk
