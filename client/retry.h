// Decides whether and when to retry a failed call.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/status.h"

namespace topk {

/// Decides when to retry a call of any method. gRPC itself must not retry calls
/// that a server has seen: it would wait for a retry delay even beyond the
/// deadline, and then lose the server's status.
class Attempts {
 public:
  using Time = std::chrono::system_clock::time_point;

  Attempts(int max_attempts, Time deadline)
      : left_(max_attempts), deadline_(deadline) {}

  /// Returns when to retry, which is before the deadline, or nullopt if the
  /// call ends with `status`. `begun` tells whether part of the response had
  /// arrived. If the server's retry delay ends after the deadline, adds a note
  /// to the message.
  std::optional<Time> Next(Status& status, bool begun);

 private:
  int left_;
  const Time deadline_;
  std::chrono::milliseconds pause_{100};
};

}  // namespace topk
