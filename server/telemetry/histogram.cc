#include "server/telemetry/histogram.h"

#include <algorithm>
#include <cmath>

namespace topk {

Buckets Buckets::Powers(double first, double factor, double last, double unit) {
  Buckets buckets{{}, unit};
  // By the power, not by the bound before: so 1e-3 is exposed as 0.001.
  const double steps = std::round(std::log(last / first) / std::log(factor));
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    buckets.bounds.push_back(first * std::pow(factor, i));
  }
  return buckets;
}

Histogram::Histogram(const Buckets& buckets)
    : bounds_(buckets.bounds),
      unit_(buckets.unit),
      counts_(buckets.bounds.size() + 1),
      exemplars_(buckets.bounds.size() + 1) {
  for (const double bound : bounds_) {
    limits_.push_back(std::llround(bound / unit_));
  }
}

void Histogram::Observe(int64_t value, const TraceContext* sampled) {
  // The first bound that is not below: "le" is less or equal.
  const auto at = std::lower_bound(limits_.begin(), limits_.end(), value);
  const auto bucket = static_cast<size_t>(at - limits_.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  // Released after the count, so that a reader that sees the sum also sees the
  // count.
  sum_.fetch_add(value, std::memory_order_release);
  if (sampled != nullptr) SetExemplar(bucket, value, *sampled);
}

void Histogram::SetExemplar(size_t bucket, int64_t value,
                            const TraceContext& trace) {
  double exposed = static_cast<double>(value) * unit_;
  // The product may exceed the bound by a rounding error.
  if (bucket < bounds_.size()) exposed = std::min(exposed, bounds_[bucket]);
  const std::lock_guard lock(mutex_);
  exemplars_[bucket] = {trace.trace_high, trace.trace_low, trace.span, exposed,
                        std::chrono::system_clock::now()};
}

BucketExemplars Histogram::CollectExemplars() const {
  const std::lock_guard lock(mutex_);
  return exemplars_;
}

prometheus::ClientMetric::Histogram Histogram::Collect() const {
  prometheus::ClientMetric::Histogram result;
  result.sample_sum =
      static_cast<double>(sum_.load(std::memory_order_acquire)) * unit_;
  result.bucket.reserve(bounds_.size());
  for (size_t i = 0; i < counts_.size(); ++i) {
    result.sample_count += counts_[i].load(std::memory_order_relaxed);
    if (i < bounds_.size()) {  // the exposition adds the one of +Inf
      result.bucket.push_back({result.sample_count, bounds_[i]});
    }
  }
  return result;
}

}  // namespace topk
