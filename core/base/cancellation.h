// Tells a computation that its result is no longer needed.
#pragma once

#include <atomic>

namespace topk {

/// A thread-safe flag that cancels a computation. The flag is never reset. A
/// cancelled computation may skip work, so check the flag afterwards.
class Cancellation {
 public:
  /// Whatever the caller has written before, e.g. the cause, is visible to
  /// threads for which cancelled() returns true.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_ = false;
};

/// Returns true if `cancellation` is not null and is cancelled.
inline bool IsCancelled(const Cancellation* cancellation) {
  return cancellation != nullptr && cancellation->cancelled();
}

}  // namespace topk
