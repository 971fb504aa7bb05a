// gRPC's completion queue, and the threads that poll it.
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

/// The tag of an asynchronous operation. The completion queue returns it when
/// the operation has finished.
class CompletionTag {
 public:
  /// Returns the tag to start an operation with. The caller's writes until then
  /// happen before OnComplete().
  void* Tag() {
    AnnotateHappensBefore(this);
    return this;
  }

  /// Called by a poller when the operation has finished. `ok` is gRPC's: false
  /// for a read at the end of a stream, a write to a disconnected client, and a
  /// pending call when the server shuts down. Must take constant time.
  virtual void OnComplete(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

/// A tag that calls a member function of its owner, and keeps the owner alive
/// from For() until that function returns.
template <class Owner, void (Owner::*kMember)(bool)>
class OwningTag final : public CompletionTag {
 public:
  /// Returns the tag for one operation. The previous one must have finished.
  void* For(std::shared_ptr<Owner> owner) {
    owner_ = std::move(owner);
    return Tag();
  }

  /// Releases the owner if gRPC will not return the tag.
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

/// The base of objects that start operations on the loop's queue. The loop
/// outlives all of them.
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

/// The pollers: threads that take finished operations from the queue and call
/// their tags. Their number does not depend on that of connections and calls.
class EventLoop {
 public:
  /// Called with the time that a poller spent on one tag.
  using OnBusy = std::function<void(std::chrono::nanoseconds busy)>;

  /// Starts `threads` >= 1 pollers. `on_busy` may be empty; the pollers call
  /// it.
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads,
            OnBusy on_busy = {});

  /// Waits until all event sources are destroyed. The server must have been
  /// shut down, so that each of them finishes.
  ~EventLoop();

  /// Calls start(), on the poller that calls this, once the poller has no event
  /// left and has polled all connections, or after 1024 events. Calls start()
  /// at once on any other thread.
  void AfterPoll(std::function<void()> start);

  int pollers() const { return pollers_; }
  /// The queue to start operations on.
  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  friend class EventSource;

  void Poll();

  Users sources_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const OnBusy on_busy_;
  const int pollers_;
  std::vector<std::thread> threads_;
};

}  // namespace topk
