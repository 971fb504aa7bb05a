// A histogram that needs little memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topk::cli {

/// A log-linear histogram of whole numbers >= 0, e.g. nanoseconds, with 64
/// steps per power of two. Values are accurate to less than 1 %. Uses 22 KB
/// regardless of the number of values. Not thread-safe: use one per thread and
/// merge them.
// Implemented here because Debian 12 does not package HdrHistogram's C library.
class Histogram {
 public:
  /// A step of the histogram: `count` of the recorded values are in
  /// [low, high).
  struct Step {
    int64_t low;
    int64_t high;
    int64_t count;
  };

  /// Records a value. Values below 0 count as 0. Values of 2^48 (78 hours in
  /// nanoseconds) or more count as just below 2^48, except in max() and mean().
  void Record(int64_t value);

  void Merge(const Histogram& other);

  /// Returns the smallest value v such that the fraction `share` (0 .. 1) of
  /// all values is at most v, accurate to 0.8 %; 0 if nothing was recorded.
  int64_t Percentile(double share) const;

  /// The number of recorded values.
  int64_t count() const { return count_; }
  /// The exact maximum and mean. 0 if nothing was recorded.
  int64_t max() const { return max_; }
  double mean() const;

  /// Returns the non-empty steps in ascending order.
  std::vector<Step> Steps() const;

 private:
  static constexpr int kBits = 6;
  static constexpr int kMaxBits = 48;
  // Values below 2 * 2^kBits have a step each. Each higher power of two has
  // 2^kBits steps.
  static constexpr size_t kSteps = size_t{kMaxBits - kBits + 1} << kBits;

  static size_t IndexOf(int64_t value);
  static Step StepAt(size_t index);

  std::array<int64_t, kSteps> counts_{};
  int64_t count_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace topk::cli
