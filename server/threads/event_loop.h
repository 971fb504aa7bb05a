// gRPC's completion queue, and the threads that poll it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/happens_before.h"
#include "core/common/mutex.h"
#include "server/threads/active_pollers.h"
#include "server/threads/wait_group.h"

namespace topk {

/// The tag of an asynchronous operation. The completion queue returns the tag
/// when the operation has finished.
class CompletionTag {
 public:
  /// Returns the tag to pass to gRPC when an operation starts. All memory
  /// writes before this call are visible to OnComplete().
  void* Tag() {
    AnnotateHappensBefore(this);
    return this;
  }

  /// Called by a poller when the operation has finished. As in gRPC, `ok` is
  /// false for a read at the end of a stream, for a write to a disconnected
  /// client, and for a call that had not arrived when the server shut down.
  /// Must not block, and must take at most a few milliseconds.
  virtual void OnComplete(bool ok) = 0;

  /// Returns whether the completion of an operation that OnComplete() starts
  /// may be handled before older events, even while the event loop is behind.
  virtual bool MayOvertake() const { return false; }

 protected:
  ~CompletionTag() = default;
};

/// A tag that calls a member function of its owner. The owner stays alive from
/// the call to For() until the member function returns.
template <class Owner, void (Owner::*kMember)(bool), bool kMayOvertake = false>
class OwningTag final : public CompletionTag {
 public:
  /// Returns the tag for one operation. The previous operation must have
  /// finished.
  void* For(std::shared_ptr<Owner> owner) {
    owner_ = std::move(owner);
    return Tag();
  }

  /// Releases the tag's owner. Call this if gRPC will never return the tag.
  void Drop() { owner_.reset(); }

  void OnComplete(bool ok) override {
    const std::shared_ptr<Owner> owner = std::move(owner_);
    WidenRace();
    (owner.get()->*kMember)(ok);
    WidenRace();
  }

  bool MayOvertake() const override { return kMayOvertake; }

 private:
  std::shared_ptr<Owner> owner_;
};

/// Polls the completion queue and calls the tag of each finished operation. As
/// many polling threads run as the load needs.
///
/// The loop repeatedly enqueues an event of its own, the marker. When the
/// marker leaves the queue, so have all older events, and a turn of the loop
/// ends. The marker's time in the queue shows how long events wait.
class EventLoop final : private CompletionTag {
 public:
  /// Receives the time that a poller spent on one event.
  using OnBusy = std::function<void(std::chrono::nanoseconds busy)>;

  /// Runs at most `threads` pollers. Each poller calls `on_busy` after each
  /// event, unless `on_busy` is empty. REQUIRES: `threads` >= 1.
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue, int threads,
            OnBusy on_busy = {});

  /// Blocks until all results of AddUser() are destroyed. REQUIRES: the server
  /// has been shut down. Otherwise, the destructor never returns.
  ~EventLoop();

  /// Keeps the queue open for new operations while the result exists.
  WaitGroup::Member AddUser() const { return users_.Add(); }

  /// Returns whether events have recently waited more than 5 ms for a poller.
  /// If so, run computations on the work queue, which serves clients fairly.
  bool IsBehind() const { return is_behind_; }

  /// Returns whether to create one more Call object that waits for a call. If
  /// so, counts the object as waiting.
  bool TryAddWaiting();

  /// Must be called once for each call that arrives, and when it is destroyed.
  void CountArrival() { ++arrived_; }
  void CountEnd() { ++ended_; }

  /// Call CountRefused() when a call ends with a status but without a message,
  /// and CountDestroyed() when that call is destroyed.
  void CountRefused() { ++refused_; }
  void CountDestroyed() { --refused_; }

  /// Blocks until all events that are now in the queue have been taken, and
  /// gRPC has delivered all calls that it has received, or until `longest` has
  /// passed.
  void WaitForTurn(std::chrono::milliseconds longest);

  grpc::ServerCompletionQueue& queue() { return *queue_; }

 private:
  static constexpr std::chrono::milliseconds kMaxLag{5};

  void Poll(int poller);
  void PollConnections();
  // Enqueues the marker event unless it is queued already. See EventLoop.
  void EnqueueMarker();
  void OnComplete(bool ok) override;
  void EndTurn();

  WaitGroup users_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  grpc::CompletionQueue empty_queue_;  // has no events; see PollConnections()
  std::atomic<bool> is_behind_ = false;
  // How often TryAddWaiting() returned true, and the number of calls that
  // arrived and of those that were destroyed.
  std::atomic<int64_t> awaited_ = 0;
  std::atomic<int64_t> arrived_ = 0;
  std::atomic<int64_t> ended_ = 0;
  std::atomic<int64_t> refused_ = 0;  // refused calls not destroyed yet
  // The thread that sets this flag has exclusive use of the marker's four
  // members below.
  std::atomic<bool> is_marked_ = false;
  std::chrono::steady_clock::time_point marked_at_;
  std::atomic<int64_t> awaited_at_mark_ = 0;  // awaited_ when it was enqueued
  WaitGroup::Member marker_user_;  // delays the shutdown of the queue
  grpc::Alarm marker_alarm_;
  Mutex mutex_;
  std::condition_variable_any turn_ended_;
  uint64_t turns_ TOPK_GUARDED_BY(mutex_) = 0;
  const OnBusy on_busy_;
  const int pollers_;
  ActivePollers active_;
  std::vector<std::thread> threads_;
};

}  // namespace topk
