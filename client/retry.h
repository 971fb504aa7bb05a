// Decides whether and when to retry a failed call.
#pragma once

#include <chrono>
#include <optional>

#include "topk/client.h"
#include "topk/status.h"

namespace topk {

/// Counts the attempts of a call, and decides when to make the next one.
class Attempts {
 public:
  using Time = std::chrono::system_clock::time_point;

  Attempts(const std::optional<Retry>& retry, Time deadline)
      : retry_(retry.value_or(Retry{.attempts = 1})), deadline_(deadline) {}

  /// Returns when to retry, always before the deadline, or nullopt if the call
  /// must not be retried. `begun` tells whether part of the response had
  /// arrived. Adds a note to the message if the server asks for a retry after
  /// the deadline.
  std::optional<Time> Next(Status& status, bool begun);

 private:
  // In floating point, so that long pauses cannot overflow.
  using Pause = std::chrono::duration<double, std::milli>;

  const Retry retry_;
  const Time deadline_;
  int failed_ = 0;
  Pause pause_ = retry_.initial;
};

}  // namespace topk
