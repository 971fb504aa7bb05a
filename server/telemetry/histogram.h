// A histogram that many threads observe into without waiting for each other.
#pragma once

#include <prometheus/client_metric.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "server/telemetry/exemplar.h"
#include "server/telemetry/trace_context.h"

namespace topk {

/// Where a histogram's buckets end.
struct Buckets {
  /// Ascending, in the unit that is exposed; the last one is +Inf by itself.
  std::vector<double> bounds;
  /// The factor from observed values to that unit: 1e-9 from nanoseconds to
  /// seconds.
  double unit = 1;

  /// Returns first, first * factor and so on, up to and with the last.
  static Buckets Powers(double first, double factor, double last,
                        double unit = 1);
};

/// A Prometheus histogram of integers. prometheus-cpp's own takes a mutex for
/// each observation (1.0.1). Thread-safe.
class Histogram {
 public:
  explicit Histogram(const Buckets& buckets);

  /// Two additions, of which none waits. `sampled` is the trace of a call whose
  /// span is exported, or null: the observation becomes the exemplar of its
  /// bucket, under a lock.
  void Observe(int64_t value, const TraceContext* sampled = nullptr);

  /// Returns what was observed. Under load too: the buckets are cumulative, the
  /// last is the count, and the sum has no observation that the count lacks.
  prometheus::ClientMetric::Histogram Collect() const;

  /// Returns the exemplars. A Collect() that follows counts what they observed.
  BucketExemplars CollectExemplars() const;

 private:
  void SetExemplar(size_t bucket, int64_t value, const TraceContext& trace);

  const std::vector<double> bounds_;
  const double unit_;
  /// The bounds in what is observed.
  std::vector<int64_t> limits_;
  /// One for each bound and one beyond.
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<int64_t> sum_ = 0;
  mutable std::mutex mutex_;  // of the exemplars
  BucketExemplars exemplars_;
};

}  // namespace topk
