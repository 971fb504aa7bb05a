#include "server/calls/event_loop.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

// Measures how long a thread is busy with one event. Prefers CPU time, which is
// unaffected by other processes. Reading CPU time takes 1 to 2 us and reading
// the clock 40 ns, so CPU time is read only every kRefresh and after events
// that took long by the clock. The result is then too large by at most
// kRefresh.
class BusyTime {
 public:
  void Start() {
    start_ = Clock::now();
    if (start_ - refreshed_ < kRefresh) return;
    refreshed_ = start_;
    cpu_ = CpuTime();
  }

  // Returns the busy time since Start().
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

// Operations delayed by AfterPoll() on this poller. Null on other threads.
thread_local std::vector<std::function<void()>>* after_poll = nullptr;

}  // namespace

EventSource::EventSource(EventLoop& loop)
    : loop_(loop), token_(loop.sources_.Add()) {}

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     int threads, OnBusy on_busy)
    : queue_(std::move(queue)),
      on_busy_(std::move(on_busy)),
      pollers_(threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Poll(); });
}

EventLoop::~EventLoop() {
  // gRPC aborts if an operation starts after the queue was shut down.
  sources_.Wait();
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void EventLoop::AfterPoll(std::function<void()> start) {
  if (after_poll == nullptr) return start();
  after_poll->push_back(std::move(start));
}

void EventLoop::Poll() {
  using Deadline = std::chrono::system_clock::time_point;
  // One poll handles at most one connection, so several empty polls are needed
  // to reach all ready connections.
  constexpr int kPolls = 8;
  // Under load the queue may never be empty.
  constexpr int kEvents = 1024;
  int polls = 0;
  int events = 0;
  std::vector<std::function<void()>> delayed;
  after_poll = &delayed;
  CompletionTag* event = nullptr;
  bool ok = false;
  void* tag = nullptr;
  BusyTime busy;
  while (true) {
    Deadline deadline;
    // An operation started by the handler often finishes immediately (reading a
    // buffered message, writing into a buffer). This thread then receives its
    // tag without waking another thread.
    const auto next = queue_->DoThenAsyncNext(
        [&] {
          if (event != nullptr) {
            busy.Start();
            event->OnComplete(ok);
            if (on_busy_) on_busy_(busy.Stop());
          }
          // With a deadline in the past, gRPC polls once without blocking.
          deadline = delayed.empty() ? Deadline::max() : Deadline();
        },
        &tag, &ok, deadline);
    event = nullptr;
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    if (!delayed.empty()) {
      ++(next == grpc::CompletionQueue::TIMEOUT ? polls : events);
      if (polls == kPolls || events == kEvents) {
        polls = events = 0;
        for (const auto& start : std::exchange(delayed, {})) start();
      }
    }
    if (next == grpc::CompletionQueue::TIMEOUT) continue;
    event = static_cast<CompletionTag*>(tag);
    AnnotateHappensAfter(event);
  }
}

}  // namespace topk
