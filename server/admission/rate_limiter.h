// Rate limits per caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/mutex.h"

namespace topk {

/// Token buckets: each caller has one for requests and one for bytes. They fill
/// at the configured rates and hold the tokens of one second (at least one
/// request). A full bucket of bytes admits a request of any size; its level
/// then becomes negative.
///
/// Keeps the buckets of a bounded number of callers and evicts those of the
/// least recently used caller, which are the fullest. Thread-safe. Takes no
/// mutex without limits.
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

  /// Returns whether there are no limits.
  bool off() const { return !requests_.limited() && !bytes_.limited(); }

  /// The limits.
  Rates rates() const { return {requests_.per_second, bytes_.per_second}; }

  /// Takes tokens for `requests` requests of `bytes` bytes in total. If there
  /// are not enough, takes none and returns the delay until there are. 0
  /// requests and 0 bytes succeed once no level is negative.
  std::optional<std::chrono::milliseconds> Take(std::string_view caller,
                                                int64_t requests,
                                                int64_t bytes);

  /// Takes tokens for bytes that were received already. The level may become
  /// negative.
  void DebitUnchecked(std::string_view caller, int64_t bytes);

 private:
  // The rate at which a kind of buckets fills, and their capacity.
  struct Flow {
    double per_second;
    double capacity;
    bool limited() const { return per_second > 0; }
    // Returns the seconds until a bucket with `level` tokens has enough.
    double Wait(double level, double wanted) const;
  };
  struct Buckets {
    std::string caller;
    double requests;
    double bytes;
    Time filled;
  };

  // Returns a caller's buckets, filled up to now.
  Buckets& Fill(std::string_view caller) TOPK_REQUIRES(mutex_);

  const Flow requests_;
  const Flow bytes_;
  const size_t max_callers_;
  const Clock clock_;
  Mutex mutex_;
  std::list<Buckets> buckets_
      TOPK_GUARDED_BY(mutex_);  // those of the last used caller first
  std::unordered_map<std::string_view, std::list<Buckets>::iterator> by_caller_
      TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
