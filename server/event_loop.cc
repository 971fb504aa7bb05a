#include "server/event_loop.h"

#include <chrono>

namespace topk {

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     int threads)
    : queue_(std::move(queue)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Poll(); });
}

EventLoop::~EventLoop() {
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
  }
}

}  // namespace topk
