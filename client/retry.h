// Whether and when a failed call is retried.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/status.h"

namespace topk {

/// The attempts of one call, of any method. gRPC itself retries nothing that a
/// server has seen: it would wait beyond the deadline for a server's delay and
/// then lose the server's status.
class Attempts {
 public:
  using Time = std::chrono::system_clock::time_point;

  Attempts(int max_attempts, Time deadline)
      : left_(max_attempts), deadline_(deadline) {}

  /// Takes how an attempt ended, and whether a part of its response had
  /// arrived. Returns when to make the next one, always before the deadline, or
  /// nothing if the call ends with this status. A server's delay that ends
  /// after the deadline is then in the message.
  std::optional<Time> Next(Status& status, bool begun);

 private:
  int left_;
  const Time deadline_;
  std::chrono::milliseconds pause_{100};
};

}  // namespace topk
