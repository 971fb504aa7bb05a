#include "server/telemetry/metric_registry.h"

namespace topk {

void MetricRegistry::Add(prometheus::MetricType type, const std::string& name,
                         const std::string& help, Value value,
                         const prometheus::Labels& labels) {
  const MutexLock lock(mutex_);
  auto& [family, values] = computed_[name];
  family.name = name;
  family.help = help;
  family.type = type;
  auto& series = family.metric.emplace_back();
  for (const auto& [label, text] : labels)
    series.label.push_back({label, text});
  values.push_back(std::move(value));
}

std::vector<prometheus::MetricFamily> MetricRegistry::Collect() const {
  std::vector<prometheus::MetricFamily> all = updated_.Collect();
  const MutexLock lock(mutex_);
  for (const auto& [name, computed] : computed_) {
    auto& series = all.emplace_back(computed.family).metric;
    for (size_t i = 0; i < series.size(); ++i) {
      // The type of the metric decides which of the two values is exposed.
      series[i].gauge.value = series[i].counter.value = computed.values[i]();
    }
  }
  return all;
}

}  // namespace topk
