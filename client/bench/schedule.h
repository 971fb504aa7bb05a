// When a load's calls are due, and of which kind they are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace topk::cli {

/// How a load arrives, and for how long.
struct LoadProfile {
  /// Requests a second, on a schedule of their own (an open loop); 0 = each
  /// caller's next one as soon as its answer is there (a closed loop).
  double rate = 0;
  /// Open loop: exponential gaps between arrivals, not equal ones.
  bool poisson = false;
  /// How many requests are counted; 0 = as many as the seconds allow.
  int64_t requests = 0;
  double seconds = 5;
  /// Seconds before that, whose calls are made and not counted.
  double warmup = 1;
  /// Requests in a call.
  int64_t batch = 1;
  /// The fraction of the calls whose responses are verified, 0 .. 1.
  double verify = 1;
  uint64_t seed = 1;
};

/// Hands out a load's calls, in the order of their times. The same seed makes
/// the same sequence, whoever takes them. Thread-safe.
class Schedule {
 public:
  /// Since the load began.
  using Time = std::chrono::nanoseconds;

  /// A call to make.
  struct Call {
    /// When it is due; in a closed loop, when it was taken.
    Time at;
    /// The index of the drawn weight.
    size_t kind;
    bool verify;
    /// Whether it is part of the result: no warm-up.
    bool counted;
  };

  Schedule(const LoadProfile& profile, const std::vector<double>& weights);

  /// Returns the next call, or nothing once the load is over. Calls that are
  /// due but not taken when the warm-up or the time ends are dropped, except
  /// that at least one call is counted.
  std::optional<Call> Next(Time now);

  /// Ends the load at this time: nothing later was due.
  void Stop(Time at);
  bool stopped() const;

  /// How many calls the time was up for, though they had been due in it; with
  /// Poisson's arrivals, to be expected.
  int64_t missed() const;

 private:
  double Gap();

  const LoadProfile profile_;
  const int64_t calls_;  // 0 = as many as the time allows
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::discrete_distribution<size_t> kinds_;
  double end_;
  double next_ = 0;  // open loop: when the next one is due, in seconds
  int64_t counted_ = 0;
  bool stopped_ = false;
};

}  // namespace topk::cli
