// How often each value came up, in little memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topk::cli {

/// A log-linear histogram of whole numbers >= 0, e.g. nanoseconds: 64 steps for
/// each power of two, so that a value is known to less than 1 %, in 22 KB
/// whatever was recorded. Not thread-safe: one for each thread, then merged.
// Debian 12 has no package of HdrHistogram's C library.
class Histogram {
 public:
  /// One step: how many values lay in [low, high).
  struct Step {
    int64_t low;
    int64_t high;
    int64_t count;
  };

  /// Counts a value. One below 0 counts as 0, one of 2^48 or more (78 hours of
  /// nanoseconds) as just below that, in all but max() and mean().
  void Record(int64_t value);

  /// Adds all that another one counted.
  void Merge(const Histogram& other);

  /// Returns the smallest recorded value that the fraction `share` (0 .. 1) of
  /// all values does not exceed, accurate to 0.8 %; 0 if nothing was recorded.
  int64_t Percentile(double share) const;

  /// How many values were recorded.
  int64_t count() const { return count_; }
  /// The exact maximum and mean; 0 if nothing was recorded.
  int64_t max() const { return max_; }
  double mean() const;

  /// Returns the steps that have values, ascending.
  std::vector<Step> Steps() const;

 private:
  static constexpr int kBits = 6;
  static constexpr int kMaxBits = 48;
  // Values below 2 * 2^kBits are exact; each power of two above has 2^kBits.
  static constexpr size_t kSteps = size_t{kMaxBits - kBits + 1} << kBits;

  static size_t IndexOf(int64_t value);
  // Of a step, without its count.
  static Step StepAt(size_t index);

  std::array<int64_t, kSteps> counts_{};
  int64_t count_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace topk::cli
