// The load generator: sends calls on a schedule, and times, counts and verifies
// them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/bench/histogram.h"
#include "client/bench/request_template.h"
#include "client/bench/schedule.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// The responses or errors of a call, one for each request.
using Answers = std::vector<Result<Response>>;

/// Sends one call with requests of one kind, and returns the responses. Each
/// caller has its own Send.
using Send = std::function<Answers(const RequestTemplate& kind)>;

/// Measures the time of a load test. Thread-safe.
class LoadClock {
 public:
  virtual ~LoadClock() = default;
  /// Returns the time since an arbitrary fixed point.
  virtual std::chrono::nanoseconds Now() = 0;
  /// Blocks until Now() has reached `time`.
  virtual void SleepUntil(std::chrono::nanoseconds time) = 0;
};

/// Returns a clock that reads the machine's monotonic clock.
LoadClock& SteadyClock();

/// Configures a load test.
struct LoadOptions {
  LoadProfile profile;
  /// Whether to continue after failed requests. Otherwise, the first failure
  /// ends the load test. A wrong response always ends the load test.
  bool keep_going = false;
  /// If set, the client threads call this function after each response.
  /// `requests` is the number of requests sent so far, including the warm-up.
  std::function<void(int64_t requests)> progress;
  /// If set, returns whether to end the load test. Polled before each call and
  /// while waiting until a call is due.
  std::function<bool()> interrupted;
};

/// The results of one kind of request, excluding the warm-up.
struct LoadStats {
  /// The latencies, in nanoseconds, of calls whose requests all succeeded. A
  /// latency is the time from the scheduled start of a call, or from its actual
  /// start in a closed loop, to its last response.
  Histogram latency;
  int64_t answered = 0;
  int64_t verified = 0;
  /// The number of failed requests by status code.
  std::map<std::string, int64_t> errors;
  /// The number of failed requests whose error had a retry delay.
  int64_t retry_hints = 0;
  /// The number of requests that failed because there was no connection, and
  /// the number of requests whose connection broke before the response arrived.
  int64_t not_connected = 0;
  int64_t lost = 0;

  void Add(const LoadStats& other);
};

/// The results of a load test.
struct LoadResult {
  /// The results of each kind of request.
  std::vector<LoadStats> stats;
  /// The time from the end of the warm-up to the last response. In an open loop
  /// with a time limit, also includes the idle time between the last response
  /// and the end of the load test.
  double seconds = 0;
  /// Open loop only. `missed` counts requests that were due but not sent when
  /// the load test ended. `lag` is the delay of the last request sent, in
  /// seconds. `kept_up` tells whether `lag` is at most 1 % of the duration.
  int64_t missed = 0;
  double lag = 0;
  bool kept_up = true;
  /// Whether LoadOptions::interrupted ended the load test early.
  bool interrupted = false;
  Status error;
  /// The kind of request that had a wrong response, or "" if there is none.
  std::string wrong;
};

/// Runs a load test with one thread per caller until the profile's number of
/// requests or duration is reached. `kinds` and `callers` must not be empty.
LoadResult RunLoad(const LoadOptions& options,
                   const std::vector<RequestTemplate>& kinds,
                   const std::vector<Send>& callers,
                   LoadClock& clock = SteadyClock());

}  // namespace topk::cli
