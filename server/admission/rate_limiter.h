// How much each caller may ask for.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace topk {

/// Token buckets: each caller has one of requests and one of bytes, which fill
/// at its rates and hold as much as a second brings (one request at least). A
/// full bucket of bytes admits a request of any size, which is then owed.
///
/// Remembers a bounded number of callers and forgets those first that were
/// idle the longest: they have full buckets, or the least of a debt left.
/// Thread-safe; without limits it costs a branch.
class RateLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  /// A second's worth; 0 = no limit.
  struct Rates {
    double requests = 0;
    double bytes = 0;
  };

  explicit RateLimiter(const Rates& rates, size_t most_callers = 10'000,
                       Clock clock = std::chrono::steady_clock::now);

  /// Whether nobody is limited.
  bool off() const { return !requests_.limited() && !bytes_.limited(); }

  /// Admits a caller's requests with their bytes and returns nothing, or admits
  /// nothing and returns how long it takes until it would. 0 requests and 0
  /// bytes are admitted once nothing is owed.
  std::optional<std::chrono::milliseconds> Take(std::string_view caller,
                                                int64_t requests,
                                                int64_t bytes);

  /// What has come already, e.g. on a stream, is owed.
  void Owe(std::string_view caller, int64_t bytes);

  /// Returns what Take() took for a request that was then rejected.
  void Refund(std::string_view caller, int64_t requests, int64_t bytes);

 private:
  // A rate and what its buckets hold.
  struct Flow {
    double per_second;
    double most;
    bool limited() const { return per_second > 0; }
    // Returns the seconds until a bucket of that level has enough.
    double Wait(double level, double wanted) const;
  };
  struct Buckets {
    std::string caller;
    double requests;
    double bytes;
    Time filled;
  };
  // Callers, those asked last in front. Several, so that threads seldom meet.
  static constexpr size_t kShards = 16;
  struct Shard {
    std::mutex mutex;
    std::list<Buckets> buckets;
    std::unordered_map<std::string_view, std::list<Buckets>::iterator> found;
  };

  Shard& ShardOf(std::string_view caller);
  // Returns a caller's buckets as full as they are now; the mutex is held.
  Buckets& Fill(Shard& shard, std::string_view caller);

  const Flow requests_;
  const Flow bytes_;
  const size_t most_in_shard_;
  const Clock clock_;
  std::array<Shard, kShards> shards_;
};

}  // namespace topk
