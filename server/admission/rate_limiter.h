// Per-caller rate limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/common/mutex.h"

namespace topk {

/// Limits each caller with two token buckets, one for requests and one for
/// bytes. A bucket fills at the configured rate and holds one second's worth of
/// tokens (at least one request). A full byte bucket admits a request of any
/// size; its level then becomes negative.
///
/// Keeps buckets for at most `max_callers` callers. Evicts the least recently
/// used caller, whose buckets have had the most time to refill. Thread-safe.
/// Does not lock the mutex if there are no limits.
class RateLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  /// Rates per second; 0 = no limit.
  struct Rates {
    double requests = 0;
    double bytes = 0;
  };

  explicit RateLimiter(const Rates& rates, size_t max_callers = 10'000,
                       Clock clock = std::chrono::steady_clock::now);

  /// Returns true if there are no limits.
  bool off() const { return !requests_.limited() && !bytes_.limited(); }

  Rates rates() const { return {requests_.per_second, bytes_.per_second}; }

  /// Takes tokens for `requests` requests and `bytes` bytes. If there are too
  /// few tokens, takes none and returns the delay until there are enough.
  /// Taking zero tokens succeeds unless the level of a bucket is negative.
  std::optional<std::chrono::milliseconds> Take(std::string_view caller,
                                                int64_t requests,
                                                int64_t bytes);

  /// Takes tokens for received bytes, even if the bucket has too few tokens.
  void DebitUnchecked(std::string_view caller, int64_t bytes);

 private:
  struct BucketConfig {
    double per_second;  // fill rate
    double capacity;
    bool limited() const { return per_second > 0; }
    // Returns the seconds until the level has risen from `level` to `wanted`.
    double Wait(double level, double wanted) const;
  };
  struct Buckets {
    std::string caller;
    double requests;
    double bytes;
    Time filled;
  };

  // Refills the caller's buckets up to the current time, and returns them.
  Buckets& Fill(std::string_view caller) TOPK_REQUIRES(mutex_);

  const BucketConfig requests_;
  const BucketConfig bytes_;
  const size_t max_callers_;
  const Clock clock_;
  Mutex mutex_;
  std::list<Buckets> buckets_
      TOPK_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<std::string_view, std::list<Buckets>::iterator> by_caller_
      TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
