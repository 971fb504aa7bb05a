// Happens-before annotations for ThreadSanitizer. They prevent false reports if
// an uninstrumented library passes work between threads. No-ops in other
// builds.
#pragma once

#include <utility>

#ifdef TOPK_TSAN
#include <chrono>
#include <thread>

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace topk {

/// Declares that everything this thread did so far happens before everything
/// that another thread does after AnnotateHappensAfter(address).
inline void AnnotateHappensBefore([[maybe_unused]] const void* address) {
#ifdef TOPK_TSAN
  __tsan_release(const_cast<void*>(address));
#endif
}

/// See AnnotateHappensBefore().
inline void AnnotateHappensAfter([[maybe_unused]] const void* address) {
#ifdef TOPK_TSAN
  __tsan_acquire(const_cast<void*>(address));
#endif
}

/// Sleeps in ThreadSanitizer builds, so that other threads run and tests find
/// more races. Call this function between two steps that must look atomic to
/// other threads, and after handing an object to another thread.
inline void WidenRace() {
#ifdef TOPK_TSAN
  std::this_thread::sleep_for(std::chrono::microseconds(100));
#endif
}

/// Wraps a function that is passed to a library built without TSan. The library
/// may copy the function and call it on other threads. Declares that the
/// construction happens before every call.
template <class Fn>
class HandedOver {
 public:
  /// If `joined` is not null, also declares that every call happens before the
  /// code that follows AnnotateHappensAfter(joined).
  explicit HandedOver(Fn fn, const void* joined = nullptr)
      : fn_(std::move(fn)), joined_(joined) {
    AnnotateHappensBefore(this);
  }
  HandedOver(const HandedOver& other)
      : HandedOver(Received(other).fn_, Received(other).joined_) {}
  HandedOver& operator=(const HandedOver&) = delete;

  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    AnnotateHappensAfter(this);
    fn_(arguments...);
    if (joined_ != nullptr) AnnotateHappensBefore(joined_);
  }

 private:
  static const HandedOver& Received(const HandedOver& other) {
    AnnotateHappensAfter(&other);
    return other;
  }

  Fn fn_;
  const void* joined_;
};

}  // namespace topk
