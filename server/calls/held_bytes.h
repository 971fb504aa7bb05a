// Charges memory for the messages that a stream holds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/checked.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/admission/in_flight_limiter.h"

namespace topk {

/// Charges memory for a stream's messages while they wait. Memory can be
/// reserved in advance, so that a stream that has started does not run out of
/// memory for its messages. Thread-safe.
class HeldBytes {
 public:
  /// `reservation` must outlive this object.
  explicit HeldBytes(InFlightLimiter::Reservation& reservation)
      : charge_(reservation) {}

  /// Reserves `bytes` bytes until this object is destroyed. Returns the errors
  /// of Charge::Add().
  Status Reserve(Size bytes) {
    const MutexLock lock(mutex_);
    reserved_ = bytes.value();
    return Cover();
  }

  /// Charges a message of `bytes` bytes until Release(bytes). Returns the
  /// errors of Charge::Add().
  Status Hold(int64_t bytes) {
    const MutexLock lock(mutex_);
    held_ += bytes;
    return Cover();
  }

  void Release(int64_t bytes) {
    const MutexLock lock(mutex_);
    held_ -= bytes;
    charge_.Shrink(std::max(held_, reserved_));
  }

 private:
  // Raises the charge to the larger of held_ and reserved_.
  Status Cover() TOPK_REQUIRES(mutex_) {
    const Size missing = Size(std::max(held_, reserved_)) - charge_.bytes();
    return missing == 0 ? Status() : charge_.Add(missing);
  }

  Mutex mutex_;
  InFlightLimiter::Charge charge_ TOPK_GUARDED_BY(mutex_);
  int64_t held_ TOPK_GUARDED_BY(mutex_) = 0;
  int64_t reserved_ TOPK_GUARDED_BY(mutex_) = 0;
};

}  // namespace topk
