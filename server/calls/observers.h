// Notifies objects of changes to the server's state.
#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "core/common/mutex.h"

namespace topk {

/// An object that is notified of changes, e.g. an open stream.
class Observer {
 public:
  /// Called after each change. Must be thread-safe.
  virtual void OnChange() = 0;

 protected:
  ~Observer() = default;
};

/// The objects to notify of changes. Thread-safe.
class Observers {
 public:
  using Entry = std::list<std::weak_ptr<Observer>>::iterator;

  /// Adds an observer. Pass the result to Remove() when the observer is
  /// destroyed.
  Entry Add(std::weak_ptr<Observer> observer) {
    const MutexLock lock(mutex_);
    return observers_.insert(observers_.end(), std::move(observer));
  }
  void Remove(Entry entry) {
    const MutexLock lock(mutex_);
    observers_.erase(entry);
  }

  bool empty() {
    const MutexLock lock(mutex_);
    return observers_.empty();
  }

  /// Calls OnChange() of each observer.
  void Notify() {
    std::vector<std::shared_ptr<Observer>> live;
    {
      const MutexLock lock(mutex_);
      for (const auto& observer : observers_) live.push_back(observer.lock());
    }
    // Do not hold the lock here: OnChange() may take other locks, and
    // destroying an observer calls Remove(), which takes this lock.
    for (const auto& observer : live) {
      if (observer != nullptr) observer->OnChange();
    }
  }

 private:
  Mutex mutex_;
  std::list<std::weak_ptr<Observer>> observers_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
