// A histogram that needs little memory.
#pragma once

#include <cstdint>
#include <vector>

namespace topk::cli {

/// A log-linear histogram of whole numbers >= 0, e.g. nanoseconds, with 64
/// steps (buckets) per power of two. Values are accurate to less than 1 %. Not
/// thread-safe.
// Implemented here because Debian 12 does not package HdrHistogram's C library.
class Histogram {
 public:
  /// Records a value. Negative values count as 0. Values of 2^48 (78 hours in
  /// nanoseconds) or more count as 2^48 - 1, except in max() and mean().
  void Record(int64_t value);

  /// Returns the percentile for `share`, e.g. the median for 0.5, accurate to
  /// 0.8 %. Returns 0 if nothing was recorded. REQUIRES: 0 <= share <= 1.
  int64_t Percentile(double share) const;

  /// The number of recorded values.
  int64_t count() const { return count_; }
  /// The exact maximum and mean. 0 if nothing was recorded.
  int64_t max() const { return max_; }
  double mean() const;

 private:
  // The count of each step, up to the highest step with values.
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace topk::cli
