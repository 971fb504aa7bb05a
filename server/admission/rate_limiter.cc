#include "server/admission/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topk {

RateLimiter::RateLimiter(const Rates& rates, size_t max_callers, Clock clock)
    : requests_{rates.requests, std::max(1.0, rates.requests)},
      bytes_{rates.bytes, rates.bytes},
      max_callers_(max_callers),
      clock_(std::move(clock)) {}

double RateLimiter::BucketConfig::Wait(double level, double wanted) const {
  if (!limited()) return 0;
  // A request larger than the bucket needs only a full bucket. The tolerance is
  // for rounding: a full bucket may stay slightly below its capacity.
  constexpr double kRounding = 1e-6;
  const double lacking = std::min(wanted, capacity) - level;
  return lacking <= capacity * kRounding ? 0 : lacking / per_second;
}

RateLimiter::Buckets& RateLimiter::Fill(std::string_view caller) {
  const Time now = clock_();
  const auto found = by_caller_.find(caller);
  if (found == by_caller_.end()) {
    if (buckets_.size() >= max_callers_) {
      by_caller_.erase(buckets_.back().caller);
      buckets_.pop_back();
    }
    Buckets& full = buckets_.emplace_front(
        Buckets{std::string(caller), requests_.capacity, bytes_.capacity, now});
    by_caller_.emplace(full.caller, buckets_.begin());
    return full;
  }
  buckets_.splice(buckets_.begin(), buckets_, found->second);
  Buckets& buckets = buckets_.front();
  const double seconds =
      std::chrono::duration<double>(now - buckets.filled).count();
  buckets.requests = std::min(
      requests_.capacity, buckets.requests + seconds * requests_.per_second);
  buckets.bytes =
      std::min(bytes_.capacity, buckets.bytes + seconds * bytes_.per_second);
  buckets.filled = now;
  return buckets;
}

std::optional<std::chrono::milliseconds> RateLimiter::Take(
    std::string_view caller, int64_t requests, int64_t bytes) {
  if (off()) return {};
  const auto requests_wanted = static_cast<double>(requests);
  const auto bytes_wanted = static_cast<double>(bytes);
  const MutexLock lock(mutex_);
  Buckets& buckets = Fill(caller);
  const double wait =
      std::max(requests_.Wait(buckets.requests, requests_wanted),
               bytes_.Wait(buckets.bytes, bytes_wanted));
  if (wait > 0) {
    // Limit the delay so that no conversion to another unit can overflow.
    constexpr double kMaxSeconds = 365.0 * 86400;
    return std::chrono::milliseconds(
        static_cast<int64_t>(std::ceil(std::min(wait, kMaxSeconds) * 1000)));
  }
  buckets.requests -= requests_wanted;
  buckets.bytes -= bytes_wanted;
  return {};
}

void RateLimiter::DebitUnchecked(std::string_view caller, int64_t bytes) {
  if (!bytes_.limited()) return;
  const MutexLock lock(mutex_);
  Fill(caller).bytes -= static_cast<double>(bytes);
}

}  // namespace topk
