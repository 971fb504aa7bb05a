// Limits the number of logged lines by rate or by sampling.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/common/mutex.h"

namespace topk {

/// Admits a fixed number of lines per second. Thread-safe.
class LineLimiter {
 public:
  explicit LineLimiter(int per_second) : per_second_(per_second) {}

  /// Returns nullopt if this line must be suppressed, otherwise the number of
  /// lines suppressed since the last admitted line.
  std::optional<int64_t> Pass(int64_t second = ThisSecond()) {
    const MutexLock lock(mutex_);
    if (second > second_) {
      second_ = second;
      lines_ = 0;
    }
    if (lines_ == per_second_) {
      ++suppressed_;
      return std::nullopt;
    }
    ++lines_;
    return suppressed_ - std::exchange(reported_, suppressed_);
  }

  int64_t suppressed() const { return suppressed_; }

 private:
  static int64_t ThisSecond() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  }

  const int per_second_;
  std::atomic<int64_t> suppressed_ = 0;
  Mutex mutex_;
  int64_t second_ TOPK_GUARDED_BY(mutex_) = 0;
  int lines_ TOPK_GUARDED_BY(mutex_) = 0;  // in second_
  int64_t reported_ TOPK_GUARDED_BY(mutex_) = 0;
};

/// Picks a fraction of events; 0.25 picks every fourth event. Thread-safe.
class Sampler {
 public:
  /// `share` is 0 to 1.
  explicit Sampler(double share) : share_(share) {}

  /// Call once per event. Returns whether the event is picked.
  bool Pick() {
    const auto before = static_cast<double>(events_++);
    return std::floor(share_ * (before + 1)) > std::floor(share_ * before);
  }

  /// Returns whether Pick() can ever return true.
  bool on() const { return share_ > 0; }

 private:
  const double share_;
  std::atomic<int64_t> events_ = 0;
};

}  // namespace topk
