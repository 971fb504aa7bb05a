// Lets a destructor wait until its object is no longer in use.
#pragma once

#include <future>
#include <memory>

namespace topk {

/// Waits for the users of an object, each of which holds a token. Thread-safe.
class Users {
 public:
  /// Held while the object is in use.
  using Token = std::shared_ptr<void>;

  Users() {
    auto last = std::make_shared<std::promise<void>>();
    none_ = last->get_future();
    first_ = Token(nullptr, [last](void*) { last->set_value(); });
    tokens_ = first_;
  }

  /// Returns a token, whose use_count() is 0 once all others were destroyed.
  Token Add() const { return tokens_.lock(); }

  /// Blocks until all tokens are destroyed. Call once.
  void Wait() {
    first_.reset();
    none_.wait();
  }

 private:
  std::future<void> none_;
  Token first_;                 // used only by the constructor and Wait()
  std::weak_ptr<void> tokens_;  // shared by all tokens
};

}  // namespace topk
