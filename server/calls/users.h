// Counts the users of an object that is about to be destroyed.
#pragma once

#include <future>
#include <memory>

namespace topk {

/// Lets the destructor of an object wait for its users, each of which holds a
/// token. Thread-safe.
class Users {
 public:
  /// Held as long as the object is used.
  using Token = std::shared_ptr<void>;

  Users() {
    auto last = std::make_shared<std::promise<void>>();
    none_ = last->get_future();
    first_ = Token(nullptr, [last](void*) { last->set_value(); });
    tokens_ = first_;
  }

  /// Returns a token. Call it before Wait() returns.
  Token Add() const { return tokens_.lock(); }

  /// Returns when all tokens are destroyed. Once.
  void Wait() {
    first_.reset();
    none_.wait();
  }

 private:
  std::future<void> none_;
  Token first_;                 // only the constructor and Wait() use it
  std::weak_ptr<void> tokens_;  // all of them
};

}  // namespace topk
