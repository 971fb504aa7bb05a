// Decides whether and when to retry a failed call.
#pragma once

#include <chrono>
#include <optional>

#include "topk/status.h"

namespace topk {

/// Counts the attempts of a call, and decides when to make the next one.
class Attempts {
 public:
  using Time = std::chrono::system_clock::time_point;

  Attempts(int max_attempts, Time deadline)
      : left_(max_attempts), deadline_(deadline) {}

  /// Returns when to retry, always before the deadline, or nullopt if the call
  /// must not be retried. `begun` tells whether part of the response had
  /// arrived. Adds a note to the message if the server asks for a retry after
  /// the deadline.
  std::optional<Time> Next(Status& status, bool begun);

 private:
  int left_;
  const Time deadline_;
  // The next pause: four times the previous pause, but at most 2 s. The first
  // three take 2.1 s in total, enough for several connection attempts.
  std::chrono::milliseconds pause_{100};
};

}  // namespace topk
