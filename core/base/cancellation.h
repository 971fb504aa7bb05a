// Whether anybody still waits for an answer.
#pragma once

#include <atomic>

namespace topk {

/// Tells a computation that nobody waits for it any more. Thread-safe. What is
/// cancelled stays so, which is why a computation may leave out work wherever
/// it finds itself cancelled: whoever looks at its end finds the same.
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
