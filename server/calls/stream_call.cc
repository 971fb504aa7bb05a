#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/deferred_free.h"
#include "core/base/happens_before.h"
#include "server/calls/handlers.h"
#include "server/calls/parsed_message.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/stream_request.h"
#include "server/calls/streaming_call.h"

namespace topk {
namespace {

// Computes messages while later messages are received. Two sequences run
// concurrently and share only `queue_`:
//
// Reading, at most one read in flight, begun by a poller or by the consumer:
//   OnMessage() -> ReadWithinRate() -> [OnAlarm() ->] OnMessage() -> ...
//   ServiceCall starts the first read. Reading pauses while the queue is full,
//   and ends with the client's last message, an error, or Interrupt().
//
// Computing, by one consumer at a time:
//   idle -> Proceed() on the thread that called OnMessage() or Interrupt();
//           after Interrupt(), it only ends the stream
//        -> ProceedFor() on a worker, if a step is too long for the poller
//        -> idle, once no message is ready,
//           or SendNext() -> OnWritten() -> SendNext() -> ... -> finished,
//           or Fail() -> finished.
class StreamCall final : public StreamingCall {
 public:
  StreamCall(SharedState& state, Call& call)
      : StreamingCall(state, call),
        queue_(info_.slot),
        request_(state, info_, call.cancellation()) {}

 private:
  struct Item {
    std::unique_ptr<grpc::ByteBuffer> message;
    int64_t bytes;           // size of the message
    int64_t held_bytes = 0;  // charged until the next one is taken
  };
  using Queue = ReadAheadQueue<Item>;
  using Clock = std::chrono::steady_clock;

  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    const Queue::Next next = ok ? Receive(message) : queue_.ReceiveEnd();
    if (next.read) ReadWithinRate();
    if (next.consume) Proceed();
  }

  // Admits the request when its header arrives. Counts later messages as in
  // flight and against the rate limit. The rate limit may delay the next read.
  Queue::Next Receive(grpc::ByteBuffer& message) {
    active_at_ = Clock::now();
    if (queue_.WillWait() || call_.loop().IsBehind()) Compact(message);
    Item item{std::make_unique<grpc::ByteBuffer>(),
              static_cast<int64_t>(message.Length())};
    item.message->Swap(&message);
    const int64_t slices = SliceMemory(*item.message);
    if (!std::exchange(has_header_, true)) {
      Status s = request_.Admit(item.bytes, slices);
      return s.ok() ? queue_.Receive(item) : queue_.Interrupt(std::move(s));
    }
    state_.admission.DebitUnchecked(info_, item.bytes);
    // Count the memory of the item too, because many small items may be queued.
    constexpr int64_t kItemMemory = 600;
    item.held_bytes = item.bytes + kItemMemory + slices;
    return queue_.Receive(item);
  }

  // Reads the next message once the caller's rate limit allows it. Waits with
  // an alarm. Other threads cannot cancel the alarm safely, so each wait is
  // short, and OnAlarm() checks whether the stream has ended.
  void ReadWithinRate() {
    constexpr std::chrono::milliseconds kMaxDelay{100};
    const auto delay = state_.admission.ReadDelay(info_);
    const bool waits = delay && call_.CheckAlive().ok();
    active_at_ = waits ? Clock::time_point::max() : Clock::now();
    if (!waits) return call_.Read();
    alarm_.Set(&call_.loop().queue(),
               std::chrono::system_clock::now() + std::min(*delay, kMaxDelay),
               alarm_tag_.For({call_.shared_from_this(), this}));
  }

  void OnAlarm(bool) {
    if (!queue_.ended()) ReadWithinRate();
  }

  // Starts to consume messages on a poller, which processes small messages
  // while they are in its CPU cache. Workers alone would take 1.5 times as long
  // for a large stream.
  void Proceed() {
    ProceedFor(call_.loop().IsBehind() ? 0 : WorkQueue::kSmallNanoseconds);
  }

  // Consumes messages: runs the steps that take at most `nanoseconds` in total,
  // and leaves the rest to a worker.
  void ProceedFor(Size nanoseconds) {
    // A worker lets other work run after this time, but runs at least one step.
    constexpr int64_t kTurnNanoseconds = 2'000'000;
    while (NextItem()) {
      const Size cost =
          request_.Nanoseconds(item_ ? item_->message.get() : nullptr);
      if (cost > nanoseconds) {
        return Enqueue(cost, [this, cost] {
          ProceedFor(std::max(cost, Size(kTurnNanoseconds)));
        });
      }
      nanoseconds = nanoseconds - cost;
      const Status step = CatchBadAlloc([&] { return Step(); });
      if (!step.ok()) return Fail(WithCancelCause(step));
      if (!outgoing_.empty()) return SendNext();
    }
  }

  // Sets `item_` to the next message, or sets `end_` after the last message.
  // No-op if `item_` has not been processed yet. If the stream was interrupted,
  // calls Fail() and returns false. Also returns false if no message is ready.
  // If the result is false, this thread must stop.
  bool NextItem() {
    if (item_.has_value() || end_) return true;
    const auto taken = queue_.TakeOne(item_, request_.start_bytes());
    WidenRace();
    if (taken.read) ReadWithinRate();
    if (!taken.consume) return false;
    if (!taken.status.ok()) return Fail(taken.status), false;
    end_ = taken.end;
    received_ = taken.total_bytes;
    request_.Arrive(end_ ? RequestStats::Clock::now() : taken.since);
    return true;
  }

  // Runs the next step: reads the header from `item_`, allocates the tensor,
  // reads another message from `item_`, or computes the response at the end.
  Status Step() {
    if (Status s = call_.CheckAlive(); !s.ok()) return s;
    if (request_.MustStart()) {
      Status s = request_.Start(received_);
      return s.ok() ? queue_.Reserve(request_.AheadBytes(received_)) : s;
    }
    if (!item_) return request_.Finish(outgoing_);
    return request_.Read(*std::exchange(item_, {})->message);
  }

  // Sends the next message of the response. The last message is sent with the
  // status.
  void SendNext() {
    const grpc::ByteBuffer& message = outgoing_[sent_++];
    sent_ < outgoing_.size() ? call_.Write(message) : call_.Finish(message);
  }

  void OnWritten(bool ok) override {
    ok ? SendNext() : call_.Finish(Cancelled());
  }

  // Ends the stream. However, a drain does not end a stream whose messages are
  // arriving, being processed or delayed by the rate limit, unless the drain
  // timeout is near.
  void Interrupt(const Status& status, bool drains) override {
    const auto max_pause = state_.admission.max_pause();
    const bool may_pause = drains && max_pause.count() > 0;
    if (may_pause && Clock::now() - active_at_.load() < max_pause) return;
    if (queue_.Interrupt(status, may_pause).consume) Proceed();
  }

  // Ends the stream with an error.
  void Fail(const Status& status) {
    auto waiting = queue_.Stop();
    constexpr size_t kFew = 64;
    if (waiting.size() > kFew) {  // too many to free on a poller
      DeferFree(std::make_unique<decltype(waiting)>(std::move(waiting)), 0);
    }
    call_.Finish(status);
  }

  void RecordRequest(const Status& status) override { request_.Record(status); }

  Queue queue_;  // thread-safe
  // Used only by the thread that handles a read or an alarm. At most one read
  // or alarm is pending at a time.
  bool has_header_ = false;  // the header was received
  grpc::Alarm alarm_;
  OwningTag<StreamCall, &StreamCall::OnAlarm> alarm_tag_;
  // The time when the last read began or ended, or time_point::max() while
  // alarm_ is set. Interrupt() reads this member on other threads.
  std::atomic<Clock::time_point> active_at_ = Clock::now();
  // Used only by the consumer, after Receive() has admitted the request.
  StreamRequest request_;
  std::optional<Item> item_;  // input of the next step
  bool end_ = false;          // all messages were taken
  int64_t received_ = 0;      // bytes
  std::vector<grpc::ByteBuffer> outgoing_;
  size_t sent_ = 0;
};

}  // namespace

std::unique_ptr<CallHandler> MakeStreamCall(SharedState& state, Call& call) {
  return std::make_unique<StreamCall>(state, call);
}

}  // namespace topk
