// Lets SIGINT and SIGTERM end a load early.
#pragma once

namespace topk::cli {

/// While an InterruptGuard exists, the first SIGINT or SIGTERM is recorded and
/// does not end the process. The next one ends it, in case a stalled server
/// keeps the load from ending.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// Returns whether a signal has arrived since the guard was created.
  /// Thread-safe.
  static bool Interrupted();
};

}  // namespace topk::cli
