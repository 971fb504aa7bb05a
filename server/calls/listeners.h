// Notifies objects of changes to the server's state.
#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace topk {

/// An object that is notified of changes, e.g. an open stream.
class Listener {
 public:
  /// Called after each change. Must be thread-safe.
  virtual void OnChange() = 0;

 protected:
  ~Listener() = default;
};

/// The objects to notify of changes. Thread-safe.
class Listeners {
 public:
  using Entry = std::list<std::weak_ptr<Listener>>::iterator;

  /// Adds a listener. Pass the result to Remove() when the listener is
  /// destroyed.
  Entry Add(std::weak_ptr<Listener> listener) {
    const MutexLock lock(mutex_);
    return listeners_.insert(listeners_.end(), std::move(listener));
  }
  void Remove(Entry entry) {
    const MutexLock lock(mutex_);
    listeners_.erase(entry);
  }

  /// Calls OnChange() of each listener.
  void Notify() {
    std::vector<std::shared_ptr<Listener>> live;
    {
      const MutexLock lock(mutex_);
      for (const auto& listener : listeners_) live.push_back(listener.lock());
    }
    // Do not hold the lock here: OnChange() may take other locks, and
    // destroying a listener calls Remove(), which takes this lock.
    for (const auto& listener : live) {
      if (listener != nullptr) listener->OnChange();
    }
  }

 private:
  Mutex mutex_;
  std::list<std::weak_ptr<Listener>> listeners_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
