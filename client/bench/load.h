// Calls made as a schedule has them, timed, counted and compared.
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
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// An answer for each request of a call.
using Answers = std::vector<Result<v1::TopKResponse>>;

/// Makes one call of a kind and waits for its answers. Each caller has its own.
using Send = std::function<Answers(const RequestTemplate& kind)>;

/// The time by which a load runs. Thread-safe.
class LoadClock {
 public:
  virtual ~LoadClock() = default;
  /// The time since some moment.
  virtual std::chrono::nanoseconds Now() = 0;
  /// Returns once Now() has reached `time`.
  virtual void SleepUntil(std::chrono::nanoseconds time) = 0;
};

/// Returns the machine's steady clock.
LoadClock& SteadyClock();

/// What a load is beside its profile.
struct LoadOptions {
  LoadProfile profile;
  /// Whether a failed request is counted and the load goes on; otherwise the
  /// first one ends it. A wrong answer always does.
  bool keep_going = false;
  /// Called after each call, by any caller, with the requests made so far, the
  /// warm-up's too; or empty.
  std::function<void(int64_t requests)> progress;
  /// Asked before each call, by any caller, and while one waits until it is
  /// due: whether to end early; or empty.
  std::function<bool()> interrupted;
};

/// What came of the requests of a kind, without the warm-up's.
struct LoadStats {
  /// Of calls all of whose requests were answered, in nanoseconds: from when
  /// one was due (closed loop: sent) until its last answer was there.
  Histogram latency;
  int64_t answered = 0;
  int64_t verified = 0;
  /// How many requests failed with each code.
  std::map<std::string, int64_t> errors;
  /// To how many of these the server said when to come again.
  int64_t retry_hints = 0;

  /// Adds another one.
  void Add(const LoadStats& other);
};

/// What came of a load.
struct LoadResult {
  /// For each kind.
  std::vector<LoadStats> stats;
  /// From the end of the warm-up to the last answer; in an open loop by time,
  /// at least to the end of that, or of the load where it was interrupted.
  double seconds = 0;
  /// Open loop: how many requests were due and not sent when the time was up
  /// or the load ended early, how many seconds the last one was sent late, and
  /// whether that is next to nothing: at most 1 % of the seconds.
  int64_t missed = 0;
  double lag = 0;
  bool kept_up = true;
  /// Whether it was ended early because somebody wanted so.
  bool interrupted = false;
  /// The first failure.
  Status error;
  /// The name of a kind that had a wrong answer, or "".
  std::string wrong;
};

/// Makes calls from as many threads as there are callers, until the pace's
/// requests or seconds are used up. REQUIRES: a kind, a caller.
LoadResult RunLoad(const LoadOptions& options,
                   const std::vector<RequestTemplate>& kinds,
                   const std::vector<Send>& callers,
                   LoadClock& clock = SteadyClock());

}  // namespace topk::cli
