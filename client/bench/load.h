// Schedules the calls of a load test, and counts and times their outcomes.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "client/bench/histogram.h"
#include "topk/status.h"

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

/// The outcome of one call.
struct Outcome {
  /// For each response, the server's own time in nanoseconds: how long its
  /// backend computed.
  std::vector<int64_t> compute = {};
  /// The errors of the other requests.
  std::vector<Status> errors = {};
  /// Whether a verified response is wrong.
  bool wrong = false;
  bool retried = false;
};

/// The counts and times of a load test, or of a part of it.
struct LoadStats {
  /// The latencies, in nanoseconds, of calls with a successful request. A
  /// latency is the time from the scheduled start of a call, or from its actual
  /// start in a closed loop, to its last response.
  Histogram latency;
  /// The server's own time for each response; see Outcome::compute.
  Histogram compute;
  int64_t verified = 0;
  /// The number of failed requests by status code.
  std::map<std::string, int64_t> errors;
  /// The number of failed requests whose error had a retry delay.
  int64_t retry_hints = 0;
  /// The number of requests, answered or failed, in calls that were retried.
  int64_t retried = 0;

  int64_t answered() const { return compute.count(); }
  int64_t failed() const;
};

/// The results of a load test.
struct LoadResult {
  /// Excludes the warm-up.
  LoadStats stats;
  /// The time from the end of the warm-up to the last response. In an open loop
  /// with a time limit, also includes the idle time between the last response
  /// and the end of the load test.
  double seconds = 0;
  /// Open loop only. `missed` counts requests that were due but not sent when
  /// the load test ended. With Poisson arrivals, this is an estimate. `lag` is
  /// the delay of the last request sent or of the first one not sent, in
  /// seconds. `kept_up` tells whether `lag` is at most 1 % of the duration.
  int64_t missed = 0;
  double lag = 0;
  bool kept_up = true;
  /// Whether Load::Interrupt() ended the load test early.
  bool interrupted = false;
  Status error;
  /// Whether a response was wrong.
  bool wrong = false;
};

/// A load test: hands out the calls in the order in which they are due, and
/// records their outcomes. The same seed yields the same calls, regardless of
/// the threads that make them. Thread-safe.
class Load {
 public:
  /// The time since the load test began.
  using Time = std::chrono::nanoseconds;

  struct Call {
    /// When the call is due. In a closed loop, this is when Next() was called.
    Time at;
    bool verify;
    /// Whether the call counts, i.e. is not part of the warm-up.
    bool counted;
  };

  /// A wrong response ends the load test. Unless `keep_going`, so does a failed
  /// request.
  Load(const LoadProfile& profile, bool keep_going);

  /// Returns the next call, or nullopt once the load test is over. Skips
  /// warm-up calls that are unsent when the warm-up ends. Unless it is stopped,
  /// the load test has at least one counted call.
  std::optional<Call> Next(Time now);

  /// Records the outcome of a call.
  void Record(const Call& call, Time sent, Time answered,
              const Outcome& outcome);

  /// Ends the load test early.
  void Interrupt(Time now);
  /// Whether the load test has ended early.
  bool stopped() const;

  /// Returns the stats since the previous call, including the warm-up.
  LoadStats TakeRecent();

  /// REQUIRES: the outcomes of all calls have been recorded.
  LoadResult Result() const;

 private:
  // Open loop: the number of calls that are due before a time, apart from
  // rounding errors.
  double CallsBefore(double seconds) const {
    const auto batch = static_cast<double>(profile_.batch);
    return std::ceil(seconds * profile_.rate / batch - 1e-6);
  }
  // Open loop: returns when the next call is due, in seconds.
  double Due() const {
    return next_ * static_cast<double>(profile_.batch) / profile_.rate;
  }

  const LoadProfile profile_;
  const bool keep_going_;
  const int64_t calls_;  // calls to count; 0 = limited only by time
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  // Open loop: when the next call is due, in units of the mean time between
  // calls. This is exact, unlike a sum of seconds.
  double next_ = 0;
  int64_t counted_ = 0;
  LoadResult result_;
  LoadStats recent_;
  Time last_sent_{-1};
  Time last_answer_{0};
  Time stopped_at_ = Time::max();
};

}  // namespace topk::cli
