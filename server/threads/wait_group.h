// Lets a destructor wait until its object is no longer in use.
#pragma once

#include <future>
#include <memory>

namespace topk {

/// Tracks the users of an object, each of which holds a Member. Thread-safe.
class WaitGroup {
 public:
  /// Wait() blocks while a Member exists.
  using Member = std::shared_ptr<void>;

  WaitGroup() {
    auto last = std::make_shared<std::promise<void>>();
    none_ = last->get_future();
    first_ = Member(nullptr, [last](void*) { last->set_value(); });
    members_ = first_;
  }

  /// Returns a new Member, or one with use_count() = 0 if Wait() was called and
  /// all members are destroyed. Do not test get(), which is always null.
  Member Add() const { return members_.lock(); }

  /// Blocks until all members are destroyed. Call only once.
  void Wait() {
    first_.reset();
    none_.wait();
  }

 private:
  std::future<void> none_;
  Member first_;                 // used only by the constructor and Wait()
  std::weak_ptr<void> members_;  // shared by all members
};

}  // namespace topk
