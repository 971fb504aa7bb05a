// Limits the rate of logged lines.
#pragma once

#include <atomic>
#include <chrono>
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

}  // namespace topk
