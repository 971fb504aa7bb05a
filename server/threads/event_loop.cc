#include "server/threads/event_loop.h"

#include <algorithm>
#include <ctime>

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

// Measures how long a thread is busy with one event: the elapsed time if the
// event is shorter than kRefresh, otherwise the CPU time. Reading the CPU time
// takes 1 to 2 us, so Start() reads the CPU time at most once per kRefresh, and
// the result may be up to kRefresh too large.
class BusyTime {
 public:
  void Start() {
    start_ = Clock::now();
    if (start_ - refreshed_ < kRefresh) return;
    refreshed_ = start_;
    cpu_ = CpuTime();
  }

  Clock::time_point start() const { return start_; }

  std::chrono::nanoseconds Stop() {
    const std::chrono::nanoseconds wall = Clock::now() - start_;
    if (wall < kRefresh) return wall;
    return std::min(wall, CpuTime() - cpu_);
  }

 private:
  static constexpr std::chrono::milliseconds kRefresh{5};

  static std::chrono::nanoseconds CpuTime() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) +
           std::chrono::nanoseconds(time.tv_nsec);
  }

  Clock::time_point start_{};
  Clock::time_point refreshed_{};
  std::chrono::nanoseconds cpu_{};
};

}  // namespace

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     int threads, OnBusy on_busy)
    : queue_(std::move(queue)),
      on_busy_(std::move(on_busy)),
      pollers_(threads),
      active_(threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, i] { Poll(i); });
  }
}

EventLoop::~EventLoop() {
  // Wait, because gRPC aborts if an operation starts after Shutdown().
  users_.Wait();
  queue_->Shutdown();
  active_.Close();
  for (std::thread& thread : threads_) thread.join();
  empty_queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  empty_queue_.Next(&tag, &ok);
}

void EventLoop::EnqueueMarker() {
  if (is_marked_.exchange(true)) return;
  marker_user_ = AddUser();
  if (marker_user_.use_count() == 0) return;  // the loop is being destroyed
  marked_at_ = Clock::now();
  awaited_at_mark_ = awaited_.load();
  marker_alarm_.Set(queue_.get(), std::chrono::system_clock::time_point(),
                    Tag());
}

void EventLoop::OnComplete(bool) {
  is_behind_ = Clock::now() - marked_at_ > kMaxLag;
  const WaitGroup::Member user = std::move(marker_user_);
  is_marked_ = false;
}

bool EventLoop::TryAddWaiting() {
  // Each call that arrives uses up a waiting Call object. While the event loop
  // is behind, replacements are created late, so keep more objects waiting.
  constexpr int kWhenBehind = 512;
  if (awaited_ - arrived_ >= (is_behind_ ? kWhenBehind : pollers_)) {
    return false;
  }
  ++awaited_;
  return true;
}

void EventLoop::EndTurn() {
  // If no Call object waits, gRPC queues arriving calls without a limit. If all
  // Call objects from the start of this turn are used up, handle the queued
  // calls before reading more data from connections.
  const int64_t awaited = awaited_at_mark_;  // 0 if the loop serves no calls
  if (awaited > 0 && arrived_ >= awaited) return EnqueueMarker();
  PollConnections();
  const MutexLock lock(mutex_);
  ++turns_;
  turn_ended_.notify_all();
}

void EventLoop::WaitForTurn(std::chrono::milliseconds longest) {
  const auto end = Clock::now() + longest;
  const MutexLock lock(mutex_);
  const uint64_t before = turns_;
  EnqueueMarker();  // after reading turns_, because this turn may end at once
  while (turns_ == before && Clock::now() < end) {
    turn_ended_.wait_until(mutex_, end);
  }
}

// gRPC polls connections only when a thread finds its completion queue empty,
// which may never happen under load. Therefore, this function polls through a
// second queue, which is always empty.
void EventLoop::PollConnections() {
  // Poll repeatedly, because one poll handles at most one connection.
  constexpr int kPolls = 32;
  void* tag = nullptr;
  bool ok = false;
  for (int i = 0; i < kPolls; ++i) {
    empty_queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::time_point());
  }
}

void EventLoop::Poll(int poller) {
  // A poller may handle new events before older events. When it has handled
  // kTurnEvents events and kTurn has passed, it takes the oldest event next.
  constexpr int kTurnEvents = 256;
  constexpr std::chrono::milliseconds kTurn{4};
  // Once this many refused calls await destruction, pollers always take the
  // oldest event. Without this rule, a flood of refused calls could delay all
  // other events forever.
  constexpr int64_t kMaxRefused = 512;
  CompletionTag* event = nullptr;
  bool ok = false;
  bool starts_turn = false;
  int events = 0;  // in this turn
  Clock::time_point turn_start{};
  void* tag = nullptr;
  BusyTime busy;
  const auto handle = [&] {
    if (event == nullptr) return;
    busy.Start();
    event->OnComplete(ok);
    if (on_busy_) on_busy_(busy.Stop());
  };
  active_.Register(poller);
  if (!active_.Park(poller)) return;
  while (true) {
    active_.Adjust(busy.start(), arrived_ - ended_, is_behind_);
    const bool parks = !active_.IsActive(poller);
    // handle() may start an operation that finishes at once, e.g. a read of a
    // buffered message. DoThenAsyncNext() then returns the operation's event.
    // This wakes no other thread, but the event overtakes all queued events.
    // The marker must not overtake events, so do not enqueue it in handle().
    starts_turn = starts_turn || is_behind_ ||
                  (++events > kTurnEvents && busy.start() - turn_start > kTurn);
    const bool is_flooded = refused_ >= kMaxRefused;
    const bool overtakes =
        event != nullptr && event->MayOvertake() && !is_flooded;
    if (parks || is_flooded || (starts_turn && !overtakes) || event == this) {
      handle();
      if (event == this) EndTurn();
      if (std::exchange(starts_turn, false)) {
        events = 0;
        turn_start = busy.start();
        EnqueueMarker();
      }
      if (parks && !active_.Park(poller)) return;
      if (!queue_->Next(&tag, &ok)) return;
    } else if (queue_->DoThenAsyncNext(
                   handle, &tag, &ok,
                   std::chrono::system_clock::time_point::max()) ==
               grpc::CompletionQueue::SHUTDOWN) {
      return;
    }
    event = static_cast<CompletionTag*>(tag);
    AnnotateHappensAfter(event);
  }
}

}  // namespace topk
