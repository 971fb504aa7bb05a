// Who still uses an object that is about to go.
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
    token_ = Token(nullptr, [last](void*) { last->set_value(); });
  }

  /// Returns a token. Not after Wait().
  Token Add() const { return token_; }

  /// Returns when all tokens are destroyed. Once.
  void Wait() {
    token_.reset();
    none_.wait();
  }

 private:
  std::future<void> none_;
  Token token_;
};

}  // namespace topk
