// Mutexes annotated for Clang's thread safety analysis (-Wthread-safety).
#pragma once

#include <mutex>

#ifdef __clang__
#define TOPK_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define TOPK_THREAD_ANNOTATION(attribute)
#endif

/// Marks a member that may be accessed only while `mutex` is held.
#define TOPK_GUARDED_BY(mutex) TOPK_THREAD_ANNOTATION(guarded_by(mutex))

/// Marks a function that may be called only while `mutex` is held.
#define TOPK_REQUIRES(mutex) TOPK_THREAD_ANNOTATION(requires_capability(mutex))

namespace topk {

/// A std::mutex that Clang can check. To wait for a condition, use
/// std::condition_variable_any.
class TOPK_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() TOPK_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() TOPK_THREAD_ANNOTATION(release_capability()) {
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

/// Holds a mutex for the lifetime of this object.
class TOPK_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex)
      TOPK_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() TOPK_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace topk
