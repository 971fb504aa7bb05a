#include "server/admission/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topk {

RateLimiter::RateLimiter(const Rates& rates, size_t most_callers, Clock clock)
    : requests_{rates.requests, std::max(1.0, rates.requests)},
      bytes_{rates.bytes, rates.bytes},
      most_in_shard_(std::max<size_t>(1, most_callers / kShards)),
      clock_(std::move(clock)) {}

double RateLimiter::Flow::Wait(double level, double wanted) const {
  if (!limited()) return 0;
  // A request larger than the bucket waits for a full bucket. The tolerance
  // absorbs rounding errors of the level.
  constexpr double kRounding = 1e-6;
  const double lacking = std::min(wanted, most) - level;
  return lacking <= most * kRounding ? 0 : lacking / per_second;
}

RateLimiter::Shard& RateLimiter::ShardOf(std::string_view caller) {
  return shards_[std::hash<std::string_view>{}(caller) % shards_.size()];
}

RateLimiter::Buckets& RateLimiter::Fill(Shard& shard, std::string_view caller) {
  const Time now = clock_();
  const auto found = shard.found.find(caller);
  if (found == shard.found.end()) {
    if (shard.buckets.size() == most_in_shard_) {
      shard.found.erase(shard.buckets.back().caller);
      shard.buckets.pop_back();
    }
    shard.buckets.push_front(
        {std::string(caller), requests_.most, bytes_.most, now});
    shard.found.emplace(shard.buckets.front().caller, shard.buckets.begin());
    return shard.buckets.front();
  }
  shard.buckets.splice(shard.buckets.begin(), shard.buckets, found->second);
  Buckets& buckets = shard.buckets.front();
  const double seconds =
      std::chrono::duration<double>(now - buckets.filled).count();
  buckets.requests = std::min(
      requests_.most, buckets.requests + seconds * requests_.per_second);
  buckets.bytes =
      std::min(bytes_.most, buckets.bytes + seconds * bytes_.per_second);
  buckets.filled = now;
  return buckets;
}

std::optional<std::chrono::milliseconds> RateLimiter::Take(
    std::string_view caller, int64_t requests, int64_t bytes) {
  if (off()) return {};
  const auto requests_wanted = static_cast<double>(requests);
  const auto bytes_wanted = static_cast<double>(bytes);
  Shard& shard = ShardOf(caller);
  const std::lock_guard lock(shard.mutex);
  Buckets& buckets = Fill(shard, caller);
  const double wait =
      std::max(requests_.Wait(buckets.requests, requests_wanted),
               bytes_.Wait(buckets.bytes, bytes_wanted));
  if (wait > 0) {
    // A year, which every unit of time can hold.
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
  Shard& shard = ShardOf(caller);
  const std::lock_guard lock(shard.mutex);
  Fill(shard, caller).bytes -= static_cast<double>(bytes);
}

}  // namespace topk
