// Whether anybody still waits for an answer.
#pragma once

#include <atomic>

namespace topk {

/// Signals to a computation that its result is no longer needed. Thread-safe.
/// Cancellation is permanent, so a computation may skip work wherever it finds
/// itself cancelled: a check at its end sees the cancellation too.
class Cancellation {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  // Relaxed: nothing is handed over but the flag itself.
  std::atomic<bool> cancelled_ = false;
};

/// Whether a computation is cancelled; one without a cancellation never is.
inline bool IsCancelled(const Cancellation* cancellation) {
  return cancellation != nullptr && cancellation->cancelled();
}

}  // namespace topk
