// Whether somebody wants a load to end.
#pragma once

namespace topk::cli {

/// While one lives, a SIGINT or SIGTERM does not end the process but is noted.
/// The next one does end it: whoever waits for a server that stands still can.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  /// Whether a signal has come since it was made. From any thread.
  static bool Interrupted();
};

}  // namespace topk::cli
