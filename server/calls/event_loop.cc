#include "server/calls/event_loop.h"

#include <chrono>

namespace topk {

EventSource::EventSource(EventLoop& loop) : loop_(loop) { ++loop_.sources_; }

EventSource::~EventSource() { --loop_.sources_; }

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     int threads)
    : queue_(std::move(queue)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Poll(); });
}

EventLoop::~EventLoop() {
  // gRPC aborts if something begins in a queue that has been shut down. The
  // last source may go on any thread, which must not touch this afterwards.
  while (sources_ > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void EventLoop::Poll() {
  constexpr auto kNever = std::chrono::system_clock::time_point::max();
  Event* event = nullptr;
  bool ok = false;
  void* tag = nullptr;
  // What an event begins often ends at once (a message that is here already, a
  // write into a buffer); then this thread gets it, and no other is woken.
  while (queue_->DoThenAsyncNext(
             [&] {
               if (event != nullptr) event->Happen(ok);
             },
             &tag, &ok, kNever) == grpc::CompletionQueue::GOT_EVENT) {
    event = static_cast<Event*>(tag);
    AnnotateHappensAfter(event);
  }
}

}  // namespace topk
