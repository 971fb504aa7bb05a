// Schedules the calls of a load test.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace topk::cli {

/// The arrival rate and duration of a load test.
struct LoadProfile {
  /// The number of requests per second in an open loop, which does not wait for
  /// responses. 0 = a closed loop: each caller sends its next request as soon
  /// as it has a response.
  double rate = 0;
  /// Whether the gaps between arrivals in an open loop are exponentially
  /// distributed instead of equal.
  bool poisson = false;
  /// The number of requests to measure; 0 = as many as fit in `seconds`.
  int64_t requests = 0;
  double seconds = 5;
  /// The duration of the warm-up in seconds. Its calls are not counted.
  double warmup = 1;
  /// The number of requests per call.
  int64_t batch = 1;
  /// The fraction of the calls whose responses are verified, 0 .. 1.
  double verify = 1;
  uint64_t seed = 1;
};

/// Returns the calls of a load test in the order in which they are due. The
/// same seed yields the same calls, regardless of the threads that call Next().
/// Thread-safe.
class Schedule {
 public:
  /// The time since the load test began.
  using Time = std::chrono::nanoseconds;

  struct Call {
    /// When the call is due. In a closed loop, this is when Next() was called.
    Time at;
    /// The index of the kind of request, chosen at random by weight.
    size_t kind;
    bool verify;
    /// Whether the call counts, i.e. is not part of the warm-up.
    bool counted;
  };

  Schedule(const LoadProfile& profile, const std::vector<double>& weights);

  /// Returns the next call, or nullopt once the load test is over. Skips
  /// warm-up calls that are unsent when the warm-up ends. Unless Stop() is
  /// called, the load test has at least one counted call.
  std::optional<Call> Next(Time now);

  /// Ends the load test. missed() excludes calls that are due after `at`.
  void Stop(Time at);
  bool stopped() const;

  /// The number of calls that were due but never sent. With Poisson arrivals,
  /// this is an estimate.
  int64_t missed() const;

 private:
  double Gap();

  const LoadProfile profile_;
  const int64_t calls_;  // calls to count; 0 = limited only by time
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::discrete_distribution<size_t> kinds_;
  double end_;
  double next_ = 0;  // open loop: when the next call is due, in seconds
  int64_t counted_ = 0;
  bool stopped_ = false;
};

}  // namespace topk::cli
