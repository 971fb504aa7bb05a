#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/deferred_free.h"
#include "core/base/happens_before.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "server/calls/handlers.h"
#include "server/calls/raw_message.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/service_call.h"
#include "server/calls/write_message.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/call_span.h"

namespace topk {
namespace {

// A stream is charged at most this multiple of the bytes received from its
// client, because a header alone may announce gigabytes.
constexpr int64_t kChargedPerByte = 64;

Status HeaderMissing(const char* field) {
  return InvalidArgument("HEADER_MISSING", field,
                         "the first message of a stream must be the header");
}

// Charges memory for the messages that a stream holds. Memory can be reserved
// in advance, so that a stream that has started does not run out of memory for
// its messages. Returns the errors of Charge::Add(). Thread-safe.
class HeldBytes {
 public:
  explicit HeldBytes(InFlightLimiter::Reservation& reservation)
      : charge_(reservation) {}

  // Reserves `bytes` bytes until this object is destroyed.
  Status Reserve(Size bytes) {
    const MutexLock lock(mutex_);
    reserved_ = bytes.value();
    return Cover();
  }

  // Charges a message of `bytes` bytes until Release() is called for it.
  Status Hold(int64_t bytes) {
    const MutexLock lock(mutex_);
    held_ += bytes;
    return Cover();
  }

  void Release(int64_t bytes) {
    const MutexLock lock(mutex_);
    held_ -= bytes;
    charge_.Shrink(std::max(held_, reserved_));
  }

 private:
  // Raises the charge to the larger of held_ and reserved_.
  Status Cover() TOPK_REQUIRES(mutex_) {
    const Size missing = Size(std::max(held_, reserved_)) - charge_.bytes();
    return missing == 0 ? Status() : charge_.Add(missing);
  }

  Mutex mutex_;
  InFlightLimiter::Charge charge_ TOPK_GUARDED_BY(mutex_);
  int64_t held_ TOPK_GUARDED_BY(mutex_) = 0;
  int64_t reserved_ TOPK_GUARDED_BY(mutex_) = 0;
};

// Computes messages while later messages are received. Two sequences run
// concurrently and share only `queue_` and `held_`:
//
// Reading, on pollers, at most one read in flight:
//   OnRead() -> ReadWithinRate() -> [OnAlarm() ->] OnRead() -> ...
//   ServiceCall starts the first read. Reading pauses while the queue is full,
//   and ends with the client's last message, an error, or Interrupt().
//
// Computing, by one consumer at a time:
//   idle -> Proceed() on the thread that called OnRead() or Interrupt()
//        -> Proceed() on a worker, if a step is too long for the poller
//           (the steps: ReadHeader(), Start(), ReadData() ..., Finish())
//        -> idle, once no message is ready,
//           or SendNext() -> OnWritten() -> SendNext() -> ... -> finished,
//           or Fail() -> finished.
class StreamCall final : public ServiceCall {
 public:
  StreamCall(TopKService& service, Call& call)
      : ServiceCall(service, call, Kind::kStream),
        held_(admitted().reservation),
        charge_(admitted().reservation) {}

 private:
  struct Item {
    std::unique_ptr<grpc::ByteBuffer> message;
    int64_t bytes;  // size of the message
    int64_t held_bytes = 0;
  };

  void OnRead(bool ok, grpc::ByteBuffer& message) override {
    ReadAheadQueue<Item>::Next next;
    if (queue_.WillWait() || call_.loop().IsBehind()) Compact(message);
    Item item{std::make_unique<grpc::ByteBuffer>(),
              static_cast<int64_t>(message.Length())};
    item.message->Swap(&message);
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

  // Admits the request when its header arrives. Charges later messages and
  // counts them against the rate limit, which may delay the next read.
  Status Admit(Item& item) {
    const int64_t slices = SliceMemory(*item.message);
    if (!std::exchange(has_header_, true)) {
      return service_.admission().AdmitRequest(admitted(), item.bytes, slices,
                                               charge_);
    }
    service_.admission().DebitUnchecked(admitted(), item.bytes);
    // Many small items may wait, so charge the memory of the item too.
    constexpr int64_t kItemMemory = 600;
    item.held_bytes = item.bytes + kItemMemory + slices;
    return held_.Hold(item.held_bytes);
  }

  // Reads the next message once the caller's rate limit allows it. The alarm is
  // never canceled, because another thread may be setting it. Instead, each
  // wait is short, and OnAlarm() checks whether the stream has ended.
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
    // A poller processes small messages itself, because they are in its core's
    // cache. If workers process all messages, a stream of 256 MiB takes 1.5
    // times as long. After kTurnNanoseconds, a worker lets other work run.
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

  // Sets `item_` to the next message, or `end_` to true after the last message.
  // Does not replace an item that is not processed yet. Returns false if this
  // thread is no longer the consumer: too few messages or bytes have arrived,
  // or the stream was interrupted and this function has called Fail().
  bool NextItem() {
    if (item_.has_value() || end_) return true;
    const auto taken = queue_.TakeOne(item_, start_bytes_);
    WidenRace();
    if (taken.read) ReadWithinRate();
    if (!taken.any && !taken.end) return false;
    if (!taken.status.ok()) return Fail(taken.status), false;
    end_ = taken.end;
    received_ = taken.total_bytes;
    stats_.Arrive(taken.any ? std::max(taken.since, stats_.stages_end())
                            : RequestStats::Clock::now());
    stats_.RecordStage(Stage::kQueue);
    return true;
  }

  // Returns the CPU time of the next step.
  Size NextNanoseconds() const {
    constexpr int64_t kMessage = 1000;
    if (prepared_) return kMessage + ZeroFillNanoseconds(tensor_bytes_);
    if (!tensor_) return kMessage;
    if (item_) return kMessage + tensor_->FeedNanoseconds(item_->bytes);
    // The last term is the time to copy the response into shared memory or into
    // a message.
    return kMessage + tensor_->FinishNanoseconds() +
           CopyNanoseconds(header_.has_output()
                               ? output_bytes_
                               : Size(output_bytes_.value() / 64));
  }

  // Runs the next step: starts the tensor after the header, reads `item_`, or
  // computes the response after the last message.
  StepStatus Step(Reader reader) {
    if (Status s = call_.CheckAlive(); !s.ok()) return s;
    if (prepared_) return Start();
    if (!item_) return Finish();
    RawMessage<v1::TopKRequestChunk> chunk;
    InFlightLimiter::Charge parsed(admitted().reservation);
    InFlightLimiter::Charge& charge = tensor_ ? parsed : charge_;
    const auto add = [&charge](Size bytes) { return charge.Add(bytes); };
    StepStatus read = ReadRaw(*item_->message, reader, add, chunk);
    if (NeedsWorker(read)) return kNeedsWorker;
    if (read->ok()) read = tensor_ ? ReadData(chunk) : ReadHeader(chunk);
    held_.Release(item_->held_bytes);
    item_.reset();
    stats_.RecordStage(Stage::kDecode);
    return read;
  }

  Status ReadHeader(RawMessage<v1::TopKRequestChunk>& chunk) {
    if (!chunk.message.has_header()) {
      const bool has_data = chunk.message.has_data() || !chunk.data.empty();
      return HeaderMissing(has_data ? "data" : "header");
    }
    header_ = std::move(*chunk.message.mutable_header());
    output_ = header_.output();
    // Open the shared memory only to report its errors early. Do not keep it
    // mapped, because idle streams could use up all mappings.
    RequestMemory memory(service_.shared_objects());
    const bool is_local = admitted().caller.is_local;
    if (Status s = memory.OpenOutputs(header_, is_local); !s.ok()) return s;
    Result<PreparedRequest> prepared = service_.engine().PrepareStream(header_);
    if (!prepared.ok()) return prepared.status();
    const Cost& cost = prepared->cost;
    input_bytes_ = cost.input_bytes;
    output_bytes_ = cost.output_bytes;
    tensor_bytes_ = cost.output_bytes + cost.working_bytes;
    {
      // Fail early if the memory is not available. Start() charges it.
      InFlightLimiter::Charge available(admitted().reservation);
      if (Status s = available.Add(tensor_bytes_); !s.ok()) return s;
    }
    start_bytes_ =
        std::min(tensor_bytes_.value() / kChargedPerByte, input_bytes_.value());
    prepared_ = *std::move(prepared);
    return {};
  }

  // Charges and allocates the memory of the tensor.
  Status Start() {
    if (received_ < start_bytes_) {  // the stream has ended
      return InvalidArgument("DATA_LENGTH", "tensor.data",
                             StrCat("the stream with its header has only ",
                                    received_, " bytes, but the tensor has ",
                                    input_bytes_.value(), " bytes of data"));
    }
    if (Status s = charge_.Add(tensor_bytes_); !s.ok()) return s;
    // kAhead is enough for the messages read ahead and those being computed.
    constexpr int64_t kAhead = 2 * kMaxReadAheadBytes;
    const Size ahead = std::min(
        {input_bytes_, Size(kAhead), Size(received_) * kChargedPerByte});
    if (Status s = held_.Reserve(ahead); !s.ok()) return s;
    Result<TensorStream> tensor = TensorStream::Start(
        service_.engine(), *std::move(prepared_), &call_.cancellation());
    prepared_.reset();
    if (!tensor.ok()) return tensor.status();
    tensor_.emplace(*std::move(tensor));
    stats_.computing = true;
    return {};
  }

  Status ReadData(RawMessage<v1::TopKRequestChunk>& chunk) {
    if (chunk.message.has_header()) {
      return InvalidArgument("HEADER_REPEATED", "header",
                             "only the first message may have a header");
    }
    if (chunk.data.empty() && !chunk.message.has_data()) {
      return InvalidArgument("DATA_MISSING", "data",
                             "every message after the header must have data");
    }
    if (chunk.data.empty()) {
      chunk.data = {std::as_bytes(std::span(chunk.message.data()))};
    }
    for (const auto& slice : chunk.data) {
      stats_.tensor_bytes += static_cast<int64_t>(slice.size());
      if (Status s = tensor_->Feed(slice); !s.ok()) return s;
    }
    return {};
  }

  // Computes the response and serializes the messages to send.
  Status Finish() {
    if (!tensor_) return HeaderMissing("header");
    stats_.Arrive(RequestStats::Clock::now());
    Result<v1::TopKResponse> response = tensor_->Finish();
    if (!response.ok()) return response.status();
    stats_.AddResponse(*response);
    RequestMemory memory(service_.shared_objects());
    *header_.mutable_output() = output_;
    const bool is_local = admitted().caller.is_local;
    if (Status s = memory.OpenOutputs(header_, is_local); !s.ok()) return s;
    if (Status s = memory.Deliver(*response); !s.ok()) return s;
    outgoing_ = WriteChunks(*std::move(response));
    stats_.RecordStage(Stage::kEncode);
    return {};
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

  // Ends the stream with an error. If `end_` is true, records the status when
  // the call ends, because only then is a disconnect of the client known.
  void Fail(const Status& status) {
    auto waiting = queue_.Stop();
    constexpr size_t kFew = 64;
    if (waiting.size() > kFew) {  // too many to free on a poller
      DeferFree(std::make_unique<decltype(waiting)>(std::move(waiting)));
    }
    if (end_) return call_.FinishAndRecordLater(status);
    RecordRequest(status);
    call_.Finish(status);
  }

  void RecordRequest(const Status& status) override {
    stats_.begun = info().arrived;
    if (info().span != nullptr) {
      info().span->AddRequest(header_, stats_, status);
    }
    service_.Record(info(), header_, stats_, status);
  }

  HeldBytes held_;
  ReadAheadQueue<Item> queue_;
  // Used only by the reading sequence, which has one read or alarm at a time.
  bool has_header_ = false;  // the header was received
  grpc::Alarm alarm_;
  OwningTag<StreamCall, &StreamCall::OnAlarm> alarm_tag_;
  std::atomic<bool> delayed_ = false;  // the alarm is set; read by Interrupt()
  // Used only by the computing sequence, which has one consumer at a time.
  std::optional<Item> item_;        // input of the next step
  bool end_ = false;                // all messages were taken
  int64_t received_ = 0;            // bytes
  InFlightLimiter::Charge charge_;  // of the header and the tensor
  v1::TopKRequest header_;
  v1::OutputOptions output_;  // as sent, with shared memory regions
  Size input_bytes_;
  Size output_bytes_;
  Size tensor_bytes_;        // memory that Start() charges
  int64_t start_bytes_ = 0;  // to receive before Start() may run
  std::optional<PreparedRequest> prepared_;  // from the header until Start()
  std::optional<TensorStream> tensor_;       // from Start()
  RequestStats stats_;
  std::vector<grpc::ByteBuffer> outgoing_;
  size_t sent_ = 0;
};

}  // namespace

std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call) {
  return std::make_unique<StreamCall>(service, call);
}

}  // namespace topk
