// A histogram that needs little memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>

namespace topk::cli {

/// A histogram of whole numbers >= 0, e.g. nanoseconds, each rounded to 7 bits.
/// Not thread-safe.
class Histogram {
 public:
  /// Records a value. Negative values count as 0.
  void Record(int64_t value) {
    value = std::max<int64_t>(value, 0);
    const int bits =
        static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
    const int shift = std::max(0, bits - 7);
    const int64_t step = int64_t{1} << shift;
    ++counts_[(value >> shift << shift) + step / 2];
    ++count_;
    max_ = std::max(max_, value);
    sum_ += static_cast<double>(value);
  }

  /// Returns the percentile for `share`, e.g. the median for 0.5, accurate to
  /// 0.8 %. Returns 0 if nothing was recorded. REQUIRES: 0 <= share <= 1.
  int64_t Percentile(double share) const {
    auto rank = std::max<int64_t>(
        1,
        static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
    if (rank >= count_) return max_;
    auto at = counts_.begin();
    while ((rank -= at->second) > 0) ++at;
    return std::min(at->first, max_);
  }

  /// The number of recorded values.
  int64_t count() const { return count_; }
  /// The exact maximum and mean. 0 if nothing was recorded.
  int64_t max() const { return max_; }
  double mean() const {
    return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
  }

 private:
  std::map<int64_t, int64_t> counts_;  // by rounded value
  int64_t count_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace topk::cli
