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
#include "server/calls/held_bytes.h"
#include "server/calls/raw_message.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/service_call.h"
#include "server/calls/streamed_request.h"

namespace topk {
namespace {

// Computes messages while the next ones are received. Two sequences run
// concurrently and share only `queue_` and `held_`:
//
// Reading, on pollers, at most one read in flight:
//   OnRead() -> ReadWithinRate() -> [OnAlarm() ->] OnRead() -> ...
//   ServiceCall starts the first read. Reading pauses while the queue is full,
//   and ends with the client's last message, an error, or Interrupt().
//
// Computing, by one consumer at a time:
//   idle -> Proceed() on the poller of OnRead() or Interrupt()
//        -> Proceed() on a worker, if a step is too long for the poller
//        -> idle, once no message is ready,
//           or SendNext() -> OnWritten() -> SendNext() -> ... -> finished,
//           or Fail() -> finished.
class StreamCall final : public ServiceCall {
 public:
  StreamCall(TopKService& service, Call& call)
      : ServiceCall(service, call, Kind::kStream),
        held_(admitted().reservation),
        request_(service, admitted(), held_, call.cancellation()) {}

 private:
  struct Item {
    grpc::ByteBuffer message;
    int64_t bytes;
    int64_t held_bytes = 0;

    // A ByteBuffer can be swapped, but not moved.
    explicit Item(grpc::ByteBuffer& from)
        : bytes(static_cast<int64_t>(from.Length())) {
      message.Swap(&from);
    }
    Item(Item&& other) noexcept
        : bytes(other.bytes), held_bytes(other.held_bytes) {
      message.Swap(&other.message);
    }
  };

  void OnRead(bool ok, grpc::ByteBuffer& message) override {
    ReadAheadQueue<Item>::Next next;
    if (queue_.WillWait() || call_.loop().IsBehind()) Compact(message);
    Item item(message);
    if (!ok) {
      next = queue_.ReceiveEnd();
    } else if (Status s = Admit(item); s.ok()) {
      next = queue_.Receive(item);
    } else {
      next = queue_.Interrupt(s);
    }
    if (next.read) ReadWithinRate();
    if (next.consume) Proceed(Reader::kPoller);
  }

  // Admits the request when its header arrives. Later messages count against
  // the rate limit, which delays the next read.
  Status Admit(Item& item) {
    const int64_t slices = SliceMemory(item.message);
    if (!std::exchange(has_header_, true)) {
      return request_.Admit(item.bytes, slices);
    }
    service_.admission().DebitUnchecked(admitted(), item.bytes);
    // Memory of the item itself: many small items may wait.
    constexpr int64_t kItemMemory = 600;
    item.held_bytes = item.bytes + kItemMemory + slices;
    return held_.Hold(item.held_bytes);
  }

  // Reads the next message once the caller's rate limit allows. The alarm is
  // never canceled, because another thread may be setting it. Instead each wait
  // is short, and OnAlarm() checks whether the stream has ended.
  void ReadWithinRate() {
    constexpr std::chrono::milliseconds kMaxDelay{100};
    const auto delay = service_.admission().ReadDelay(admitted());
    delayed_ = delay && call_.CheckAlive().ok();
    if (!delayed_) return call_.Read();
    alarm_.Set(&call_.loop().queue(),
               std::chrono::system_clock::now() + std::min(*delay, kMaxDelay),
               alarm_tag_.For({call_.shared_from_this(), this}));
  }

  void OnAlarm(bool) {
    if (!queue_.stopped()) ReadWithinRate();
  }

  // Consumes messages: runs the steps that fit this thread's budget, and leaves
  // the rest to a worker.
  void Proceed(Reader reader) {
    // A poller computes messages itself, because they are in its core's cache:
    // handing them to a worker made 256 MiB take 1.5 times as long. A worker
    // lets other work run after this long.
    constexpr int64_t kTurnNanoseconds = 2'000'000;
    const Size budget = reader == Reader::kWorker ? kTurnNanoseconds
                        : call_.loop().IsBehind()
                            ? 0
                            : WorkQueue::kSmallNanoseconds;
    Size spent;
    while (NextItem()) {
      const Size cost = NextNanoseconds();
      // A worker runs at least one step.
      const bool may_stop = spent > 0 || reader == Reader::kPoller;
      if (may_stop && spent + cost > budget) return ProceedOnWorker();
      spent += cost;
      const StepStatus step = CatchBadAlloc([&] { return Step(reader); });
      if (NeedsWorker(step)) return ProceedOnWorker();
      if (!step->ok()) return Fail(WithCancelCause(*step));
      if (!outgoing_.empty()) return SendNext();
    }
  }

  void ProceedOnWorker() {
    Enqueue(NextNanoseconds(), [this] { Proceed(Reader::kWorker); });
  }

  // Sets `item_` to the next message, or `end_` after the last one. Keeps an
  // item that the poller left for this worker. Returns false if this thread is
  // no longer the consumer: too few messages or bytes have arrived, or the
  // stream was interrupted and this function has called Fail().
  bool NextItem() {
    if (item_.has_value() || end_) return true;
    const auto taken = queue_.TakeOne(item_, request_.start_bytes());
    WidenRace();
    if (taken.read) ReadWithinRate();
    if (!taken.any && !taken.end) return false;
    if (!taken.status.ok()) return Fail(taken.status), false;
    end_ = taken.end;
    received_ = taken.total_bytes;
    RequestStats& stats = request_.stats();
    stats.Arrive(taken.any ? std::max(taken.since, stats.stages_end())
                           : RequestStats::Clock::now());
    stats.RecordStage(Stage::kQueue);
    return true;
  }

  Size NextNanoseconds() const {
    return request_.NextNanoseconds(
        item_.has_value() ? std::optional(item_->bytes) : std::nullopt);
  }

  // Runs the next step: starts the tensor after the header, reads `item_`, or
  // computes the response after the last message.
  StepStatus Step(Reader reader) {
    if (Status s = call_.CheckAlive(); !s.ok()) return s;
    if (request_.state() == StreamedRequest::State::kStart) {
      // If fewer than start_bytes() were received, the stream has ended.
      return request_.Start(received_);
    }
    if (!item_.has_value()) return request_.Finish(outgoing_);
    const StepStatus read = request_.Read(item_->message, reader);
    if (NeedsWorker(read)) return kNeedsWorker;
    held_.Release(item_->held_bytes);
    item_.reset();
    request_.stats().RecordStage(Stage::kDecode);
    return read;
  }

  // Sends the next message of the response. The last message is sent with the
  // status.
  void SendNext() {
    const grpc::ByteBuffer& message = outgoing_[sent_++];
    if (sent_ < outgoing_.size()) return call_.Write(message);
    RecordRequest({});
    call_.Finish(message);
  }

  void OnWritten(bool ok) override {
    ok ? SendNext() : call_.FinishAndRecordLater(Cancelled());
  }

  // Ends the stream. May be called on any thread. During a drain, a stream that
  // still receives messages may finish, even if the caller's rate limit delays
  // the next message.
  void Interrupt(const Status& status) override {
    constexpr std::chrono::milliseconds kIdle{800};
    const bool drains = status.code == Code::kUnavailable;
    if (drains && delayed_) return;
    if (queue_.Interrupt(status, drains ? kIdle : kIdle * 0).consume) {
      Proceed(Reader::kPoller);
    }
  }

  // Ends the stream with an error. If all messages were taken, the cause may be
  // that the client disconnected, which is known only when the call ends.
  void Fail(const Status& status) {
    auto waiting = queue_.Stop();
    constexpr size_t kFew = 64;
    if (waiting.size() > kFew) {  // too slow for a poller
      DeferFree(std::make_unique<decltype(waiting)>(std::move(waiting)));
    }
    if (end_) return call_.FinishAndRecordLater(status);
    RecordRequest(status);
    call_.Finish(status);
  }

  void RecordRequest(const Status& status) override {
    request_.Record(info(), status);
  }

  HeldBytes held_;
  ReadAheadQueue<Item> queue_;
  // Owned by the reading thread. Ownership passes through a read or an alarm.
  bool has_header_ = false;  // the header was received
  grpc::Alarm alarm_;
  OwningTag<StreamCall, &StreamCall::OnAlarm> alarm_tag_;
  std::atomic<bool> delayed_ = false;  // the alarm is set; read by Interrupt()
  // Owned by the consumer, then by the sending thread. Ownership passes through
  // `queue_`, Enqueue() or a write.
  StreamedRequest request_;
  std::optional<Item> item_;  // input of the next step
  bool end_ = false;          // all messages were taken
  int64_t received_ = 0;      // bytes
  std::vector<grpc::ByteBuffer> outgoing_;
  size_t sent_ = 0;
};

}  // namespace

std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call) {
  return std::make_unique<StreamCall>(service, call);
}

}  // namespace topk
