// gRPC's completion queue, and the threads that take from it.
#pragma once

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/happens_before.h"
#include "server/calls/users.h"

namespace topk {

/// What gRPC's queue hands back: something that was begun has ended.
class CompletionTag {
 public:
  /// What to begin it with: what gRPC's queue hands back. Its beginning happens
  /// before it does.
  void* Tag() {
    AnnotateHappensBefore(this);
    return this;
  }

  /// `ok` as gRPC has it: false for a read at the end of a stream, a write to a
  /// client that has gone, a call that will not come any more. Takes constant
  /// time: the thread polls.
  virtual void OnComplete(bool ok) = 0;

 protected:
  ~Event() = default;
};

/// An event that calls a member function of the object that it is a part of,
/// and keeps the object alive from For() until that returns.
template <class Owner, void (Owner::*kMember)(bool)>
class OwningTag final : public CompletionTag {
 public:
  /// Returns the tag of one operation. The previous one has ended.
  void* For(std::shared_ptr<Owner> owner) {
    owner_ = std::move(owner);
    return Tag();
  }

  /// gRPC will not return the tag.
  void Drop() { owner_.reset(); }

  void OnComplete(bool ok) override {
    const std::shared_ptr<Owner> owner = std::move(owner_);
    (owner.get()->*kMember)(ok);
    WidenRace();
  }

 private:
  std::shared_ptr<Owner> owner_;
};

class EventLoop;

/// What begins events, and is there until the last of them has happened.
class EventSource {
 public:
  explicit EventSource(EventLoop& loop);
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

 protected:
  ~EventSource() = default;

  EventLoop& loop_;

 private:
  const Users::Token token_;
};

/// Threads that wait for events and let them happen. Only these wait, whatever
/// the number of connections and calls.
class EventLoop {
 public:
  /// Called with how long a poller was busy with one event.
  using OnBusy = std::function<void(std::chrono::nanoseconds busy)>;

  /// Begins to poll, with one thread or more. `on_busy` may be empty; the
  /// pollers call it.
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads,
            OnBusy on_busy = {});

  /// Returns when all sources of events are gone. The server has been shut
  /// down, so that each comes to its end; those whose connections are lost may
  /// still be at it.
  ~EventLoop();

  /// Where to begin.
  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  friend class EventSource;

  void Poll();

  Users sources_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const OnBusy on_busy_;
  std::vector<std::thread> threads_;
};

}  // namespace topk
