// Happens-before annotations for ThreadSanitizer, where a library that was not
// compiled with it passes work from one thread to another; otherwise it would
// report a race. They do nothing in other builds.
#pragma once

#include <utility>

#ifdef TOPK_TSAN
#include <chrono>
#include <thread>

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace topk {

/// Declares that this thread's writes happen before those of a thread that
/// later calls AnnotateHappensAfter() with the same address.
inline void AnnotateHappensBefore([[maybe_unused]] const void* address) {
#ifdef TOPK_TSAN
  __tsan_release(const_cast<void*>(address));
#endif
}

/// The other half.
inline void AnnotateHappensAfter([[maybe_unused]] const void* address) {
#ifdef TOPK_TSAN
  __tsan_acquire(const_cast<void*>(address));
#endif
}

/// Stands between two steps of a change that another thread must not see half
/// done, and behind the hand-over of an object to another thread.
/// ThreadSanitizer's build sleeps here, so that other threads run between the
/// steps.
inline void WidenRace() {
#ifdef TOPK_TSAN
  std::this_thread::sleep_for(std::chrono::microseconds(100));
#endif
}

/// A function that such a library copies, and calls on its threads: what its
/// maker has done happens before each call.
template <class Fn>
class HandedOver {
 public:
  /// Each call happens before AnnotateHappensAfter(joined).
  explicit HandedOver(Fn fn, const void* joined = nullptr)
      : fn_(std::move(fn)), joined_(joined) {
    AnnotateHappensBefore(this);
  }
  HandedOver(const HandedOver& other)
      : HandedOver(Received(other).fn_, Received(other).joined_) {}
  HandedOver(HandedOver&& other) noexcept
      : HandedOver(std::move(Received(other).fn_), Received(other).joined_) {}
  HandedOver& operator=(const HandedOver&) = delete;

  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    AnnotateHappensAfter(this);
    fn_(arguments...);
    if (joined_ != nullptr) AnnotateHappensBefore(joined_);
  }

 private:
  template <class Other>
  static Other& Received(Other& other) {
    AnnotateHappensAfter(&other);
    return other;
  }

  Fn fn_;
  const void* joined_;
};

}  // namespace topk
