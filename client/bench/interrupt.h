// Lets SIGINT and SIGTERM end a load early.
#pragma once

namespace topk::cli {

/// While a guard exists, the first SIGINT or SIGTERM is only recorded. The next
/// one ends the process, in case a stalled server keeps the load from ending.
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
