#include <deque>
#include <memory>
#include <utility>

#include "core/common/mutex.h"
#include "server/calls/handlers.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/request.h"
#include "server/calls/streaming_call.h"

namespace topk {
namespace {

// The memory charged for a request in addition to its message. Even empty
// messages use memory, and a connection may have 256 streams of 64 messages.
constexpr int64_t kItemBytes = int64_t{4} << 10;

// Answers each message like a unary call, and sends the responses in order. At
// most one read and one write are in flight. Several threads may compute
// different requests.
class ManyCall final : public StreamingCall {
 public:
  ManyCall(SharedState& state, Call& call, MakeCodec make_codec)
      : StreamingCall(state, call, /*many=*/true),
        make_codec_(std::move(make_codec)) {}

 private:
  struct Item {
    explicit Item(ManyCall& call)
        : request(call.state_, call.info_, call.call_.cancellation(),
                  call.make_codec_(), RequestStats::Clock::now()) {}

    // Counts the response as in flight until the response is sent.
    TensorRequest request;
    int64_t bytes = 0;         // counted against kMaxReadAheadBytes
    bool is_answered = false;  // its response or error is ready
  };

  void OnMessage(bool ok, grpc::ByteBuffer& message) override {
    if (!ok) return End({});
    auto owner = std::make_unique<Item>(*this);
    Item& item = *owner;
    item.bytes = static_cast<int64_t>(message.Length());
    if (call_.loop().IsBehind() || state_.work.IsBusy()) Compact(message);
    const Status status = item.request.Admit(message, kItemBytes);
    // A rejected message does not count as in flight. Let it count as a full
    // queue, so that reading stops until the error is sent.
    if (!status.ok()) item.bytes = kMaxReadAheadBytes;
    {
      const MutexLock lock(mutex_);
      is_reading_ = false;
      if (is_ended_) return item.request.Record(Cancelled());
      bytes_ += item.bytes;
      items_.push_back(std::move(owner));
      ReadNext();
    }
    const auto finish = [this, &item](const Status& result) {
      FinishItem(item, result);
    };
    status.ok() ? AnswerRequest(item.request, finish) : finish(status);
  }

  void FinishItem(Item& item, const Status& status) {
    if (!status.ok()) item.request.WriteError(status);
    item.request.Record(status);
    item.request.ReleaseMessage();
    const MutexLock lock(mutex_);
    item.is_answered = true;
    SendNext();
  }

  // Ends the stream after answering the requests already received.
  void Interrupt(const Status& status, bool) override { End(status); }

  void End(const Status& status) {
    const MutexLock lock(mutex_);
    if (std::exchange(is_ended_, true)) return;
    status_ = status;
    SendNext();
  }

  void OnWritten(bool ok) override {
    std::unique_ptr<Item> sent;  // freed after the mutex is unlocked
    const MutexLock lock(mutex_);
    is_sending_ = false;
    sent = std::move(items_.front());
    items_.pop_front();
    bytes_ -= sent->bytes;
    if (!ok) return Finish(Cancelled());
    ReadNext();
    SendNext();
  }

  // Starts the next read, unless enough requests wait behind the first one.
  void ReadNext() TOPK_REQUIRES(mutex_) {
    const int64_t ahead = items_.empty() ? 0 : bytes_ - items_.front()->bytes;
    if (is_reading_ || is_ended_ || items_.size() > kMaxReadAheadMessages ||
        ahead >= kMaxReadAheadBytes) {
      return;
    }
    is_reading_ = true;
    call_.Read();
  }

  // Sends the next response if it is ready, or the status at the end.
  void SendNext() TOPK_REQUIRES(mutex_) {
    if (is_sending_) return;
    if (items_.empty()) {
      if (is_ended_) Finish(status_);
      return;
    }
    if (!items_.front()->is_answered) return;
    is_sending_ = true;
    grpc::WriteOptions options;
    if (items_.size() > 1 && items_[1]->is_answered) options.set_buffer_hint();
    call_.Write(items_.front()->request.response(), options);
  }

  // Ends the call. Unfinished requests are recorded later.
  void Finish(const Status& status) TOPK_REQUIRES(mutex_) {
    is_ended_ = true;
    is_sending_ = true;  // nothing may be sent from now on
    call_.Finish(status);
  }

  // Each request of an admitted call is recorded individually.
  void RecordRequest(const Status& status) override {
    if (!info_.slot.is_taken()) StreamingCall::RecordRequest(status);
  }

  const MakeCodec make_codec_;
  Mutex mutex_;
  // The requests whose responses have not been sent, in order. While a request
  // is not answered, one thread at a time uses it, without the mutex.
  std::deque<std::unique_ptr<Item>> items_ TOPK_GUARDED_BY(mutex_);
  int64_t bytes_ TOPK_GUARDED_BY(mutex_) = 0;  // sum of Item::bytes
  // ServiceCall starts the first read.
  bool is_reading_ TOPK_GUARDED_BY(mutex_) = true;
  bool is_sending_ TOPK_GUARDED_BY(mutex_) = false;
  bool is_ended_ TOPK_GUARDED_BY(mutex_) = false;  // no more messages are read
  Status status_ TOPK_GUARDED_BY(mutex_);          // why the stream ended
};

}  // namespace

std::unique_ptr<CallHandler> MakeManyCall(SharedState& state, Call& call,
                                          MakeCodec make_codec) {
  return std::make_unique<ManyCall>(state, call, std::move(make_codec));
}

}  // namespace topk
