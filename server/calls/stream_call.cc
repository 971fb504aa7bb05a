#include "server/calls/stream_call.h"

#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/deferred_free.h"
#include "core/base/happens_before.h"
#include "core/base/text.h"
#include "server/calls/raw_message.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/service_call.h"
#include "server/calls/write_message.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/call_span.h"

namespace topk {
namespace {

// A stream is charged at most this multiple of the bytes it has sent, because a
// header alone may announce gigabytes.
constexpr int64_t kChargedPerByte = 64;

// Charges the messages that a stream holds. The usual read-ahead is reserved
// when the tensor is started, so that a started stream does not fail for lack
// of memory for its data.
class HeldBytes {
 public:
  explicit HeldBytes(InFlightLimiter::Reservation& reservation)
      : reservation_(reservation) {}

  // Reserves `bytes` bytes until this object is destroyed. Returns the errors
  // of Charge::Add().
  Status Reserve(Size bytes) {
    const std::lock_guard lock(mutex_);
    reserved_ = bytes.value();
    return Cover();
  }

  // Charges a message until Release(). Returns the errors of Charge::Add().
  Status Hold(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    held_ += bytes;
    return Cover();
  }

  void Release(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    charge_.Shrink(std::max(held_, reserved_));
  }

 private:
  Status Cover() {
    const Size missing = Size(std::max(held_, reserved_)) - charge_.bytes();
    return missing == 0 ? Status() : charge_.Add(reservation_, missing);
  }

  InFlightLimiter::Reservation& reservation_;
  std::mutex mutex_;
  InFlightLimiter::Charge charge_;
  int64_t held_ = 0;
  int64_t reserved_ = 0;
};

// Receives messages while earlier ones are computed.
class StreamCall final : public ServiceCall {
 public:
  StreamCall(TopKService& service, Call& call)
      : ServiceCall(service, call, Kind::kStream),
        held_(admitted().reservation) {}

 private:
  // A message and the bytes charged for it.
  struct Item {
    grpc::ByteBuffer message;
    int64_t held_bytes = 0;

    Item() = default;
    // A ByteBuffer can be copied or swapped, but not moved.
    Item(Item&& other) noexcept : held_bytes(other.held_bytes) {
      message.Swap(&other.message);
    }
    int64_t bytes() const { return static_cast<int64_t>(message.Length()); }
  };

  void OnRead(bool ok, grpc::ByteBuffer& message) override {
    ReadAheadQueue<Item>::Next next;
    Item item;
    if (queue_.WillWait()) Compact(message);
    item.message.Swap(&message);
    if (!ok) {
      next = queue_.ReceiveEnd();
    } else if (Status s = Admitted(item); s.ok()) {
      next = queue_.Receive(item, item.bytes());
    } else {
      next = queue_.Interrupt(s);
    }
    if (next.read) ReadWithinRate();
    if (next.work) Proceed(Reader::kPoller);
  }

  // Ends the stream. During a drain, a stream that still receives messages may
  // finish, even if the caller's rate limit delays the next message.
  void Interrupt(const Status& status) override {
    constexpr std::chrono::milliseconds kIdle{800};
    const bool drains = status.code == Code::kUnavailable;
    if (drains && delayed_) return;
    if (queue_.Interrupt(status, drains ? kIdle : kIdle * 0).work) {
      Proceed(Reader::kPoller);
    }
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

  // Admits the tensor with its header. Later chunks count against the rate
  // limit, which delays the next read.
  Status Admitted(Item& item) {
    const int64_t slices = CountSlices(item.message) * kSliceMemory;
    if (!std::exchange(has_header_, true)) {
      return service_.admission().AdmitRequest(admitted(), item.bytes(), slices,
                                               charge_);
    }
    service_.admission().DebitUnchecked(admitted(), item.bytes());
    // Memory of the item itself. Many small items may wait.
    constexpr int64_t kItemMemory = 600;
    item.held_bytes = item.bytes() + kItemMemory + slices;
    return held_.Hold(item.held_bytes);
  }

  // Runs as many steps as this thread should, and leaves the rest to a worker.
  // One thread at a time.
  void Proceed(Reader reader) {
    // A message that was just read is in this core's cache: handing it to a
    // worker made 256 MiB take 1.5 times as long. Workers take turns with other
    // work.
    constexpr int64_t kTurnNanoseconds = 2'000'000;
    const Size most = reader == Reader::kPoller ? WorkQueue::kSmallNanoseconds
                                                : kTurnNanoseconds;
    Size spent;
    while (NextItem()) {
      const Size cost = NextNanoseconds();
      const bool turn = spent > 0 || reader == Reader::kPoller;
      if (turn && spent + cost > most) return ProceedOnWorker();
      spent += cost;
      const std::optional<Status> status =
          CatchBadAlloc([&] { return Step(reader); });
      if (!status.has_value()) return ProceedOnWorker();
      if (!status->ok()) return Fail(WithCancelCause(*status));
      if (finished_) return;
    }
  }

  void ProceedOnWorker() {
    Enqueue(NextNanoseconds(), [this] { Proceed(Reader::kWorker); });
  }

  // Takes a message for the next step, unless there already is one or the
  // stream has ended. A tensor is started when enough of it has arrived.
  // Returns false if this thread must leave: either no message is ready and
  // another poller may have started, or the stream ended with an error.
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

  // The CPU time of the next step.
  Size NextNanoseconds() const {
    constexpr int64_t kMessage = 1000;
    if (prepared_.has_value()) {
      return ZeroFillNanoseconds(prepared_->cost.output_bytes +
                                 prepared_->cost.working_bytes) +
             kMessage;
    }
    if (item_.has_value()) {
      if (!tensor_.has_value()) return kMessage;
      return kMessage + tensor_->FeedNanoseconds(item_->bytes());
    }
    if (!tensor_.has_value()) return kMessage;
    // Serializing the response, or copying it to shared memory.
    return kMessage + tensor_->FinishNanoseconds() +
           CopyNanoseconds(header_.has_output()
                               ? output_bytes_
                               : Size(output_bytes_.value() / 64));
  }

  // Reads the header, starts the tensor, feeds a message, or sends the
  // response. Returns nullopt if that takes too long for a poller.
  std::optional<Status> Step(Reader reader) {
    if (Status s = call_.CheckAlive(); !s.ok()) return s;
    if (prepared_.has_value()) {
      // NextItem() returns with fewer bytes only if the stream has ended.
      return received_ < start_bytes_ ? TooShort() : Start();
    }
    if (!item_.has_value()) return Answer();
    const std::optional<Status> status = tensor_.has_value()
                                             ? Feed(item_->message, reader)
                                             : Prepare(item_->message, reader);
    if (!status.has_value()) return std::nullopt;
    held_.Release(item_->held_bytes);
    item_.reset();
    stats_.RecordStage(Stage::kDecode);
    return status;
  }

  // Reads the header. Checks that memory for the tensor is available, but
  // charges it only when the tensor is started.
  std::optional<Status> Prepare(grpc::ByteBuffer& message, Reader reader) {
    RawMessage<v1::TopKRequestChunk> chunk;
    const std::optional<Status> read = ReadRaw(
        message, reader, [&](Size more) { return Charge(more, charge_); },
        chunk);
    if (!read.has_value() || !read->ok()) return read;
    if (!chunk.message.has_header()) {
      const bool has_data = chunk.message.has_data() || !chunk.data.empty();
      return InvalidArgument(
          "HEADER_MISSING", has_data ? "data" : "header",
          "the first message of a stream must be the header");
    }
    header_ = std::move(*chunk.message.mutable_header());
    output_ = header_.output();
    // Opens the shared memory only to report its errors early. Idle streams
    // must not keep it mapped, or they could take all mappings.
    RequestMemory memory(service_.shared_objects());
    if (Status s = memory.OpenOutputs(header_, admitted().caller.is_local);
        !s.ok())
      return s;
    Result<PreparedRequest> prepared = service_.engine().PrepareStream(header_);
    if (!prepared.ok()) return prepared.status();
    output_bytes_ = prepared->cost.output_bytes;
    const Size tensor_bytes = TensorBytes(*prepared);
    {
      InFlightLimiter::Charge available;
      if (Status s = Charge(tensor_bytes, available); !s.ok()) return s;
    }
    start_bytes_ = std::min(tensor_bytes.value() / kChargedPerByte,
                            prepared->cost.input_bytes.value());
    prepared_ = *std::move(prepared);
    return Status();
  }

  static Size TensorBytes(const PreparedRequest& prepared) {
    return prepared.cost.output_bytes + prepared.cost.working_bytes;
  }

  Status Charge(Size more, InFlightLimiter::Charge& charge) {
    return charge.Add(admitted().reservation, more);
  }

  // Rejects a stream that has ended early, before memory is allocated for it.
  Status TooShort() const {
    return InvalidArgument(
        "DATA_LENGTH", "tensor.data",
        StrCat("the stream has ended after ", received_,
               " bytes with its header; the tensor has ",
               prepared_->cost.input_bytes.value(), " bytes of data"));
  }

  Status Start() {
    if (Status s = Charge(TensorBytes(*prepared_), charge_); !s.ok()) return s;
    // The chunks read ahead and the chunks being computed.
    constexpr int64_t kAhead = 2 * ReadAheadQueue<Item>::kMaxBytes;
    if (Status s =
            held_.Reserve(std::min({prepared_->cost.input_bytes, Size(kAhead),
                                    Size(received_) * kChargedPerByte}));
        !s.ok()) {
      return s;
    }
    Result<TensorStream> tensor = TensorStream::Start(
        service_.engine(), *std::move(prepared_), &call_.cancellation());
    prepared_.reset();
    if (!tensor.ok()) return tensor.status();
    tensor_.emplace(*std::move(tensor));
    stats_.computing = true;
    return {};
  }

  // Feeds a message after the header. Returns INVALID_ARGUMENT if it is not
  // data, and the errors of TensorStream::Feed().
  std::optional<Status> Feed(grpc::ByteBuffer& message, Reader reader) {
    RawMessage<v1::TopKRequestChunk> chunk;
    InFlightLimiter::Charge parsed;
    const auto charge = [&](Size more) { return Charge(more, parsed); };
    const std::optional<Status> read = ReadRaw(message, reader, charge, chunk);
    if (!read.has_value() || !read->ok()) return read;
    if (chunk.message.has_header()) {
      return InvalidArgument("HEADER_REPEATED", "header",
                             "a stream has one header, its first message");
    }
    if (chunk.data.empty() && !chunk.message.has_data()) {
      return InvalidArgument("DATA_MISSING", "data",
                             "a message after the header must be data");
    }
    if (chunk.data.empty()) {
      chunk.data = {std::as_bytes(std::span(chunk.message.data()))};
    }
    for (const auto& piece : chunk.data) {
      stats_.tensor_bytes += static_cast<int64_t>(piece.size());
      if (Status s = tensor_->Feed(piece); !s.ok()) return s;
    }
    return Status();
  }

  // Computes and sends the response after the client's last message.
  Status Answer() {
    if (!tensor_.has_value()) {
      return InvalidArgument(
          "HEADER_MISSING", "header",
          "the first message of a stream must be the header");
    }
    stats_.Arrive(RequestStats::Clock::now());
    Result<v1::TopKResponse> answer = tensor_->Finish();
    if (!answer.ok()) return answer.status();
    stats_.Note(*answer);
    RequestMemory memory(service_.shared_objects());
    *header_.mutable_output() = output_;
    if (Status s = memory.OpenOutputs(header_, admitted().caller.is_local);
        !s.ok())
      return s;
    if (Status s = memory.Deliver(*answer); !s.ok()) return s;
    outgoing_ = WriteChunks(*std::move(answer));
    stats_.RecordStage(Stage::kEncode);
    finished_ = true;
    SendNext();
    return {};
  }

  // Ends the stream with an error. If the call was canceled or disconnected,
  // the log names that cause, which is known only when the call finishes.
  void Fail(const Status& status) {
    auto waiting = queue_.Stop();
    constexpr size_t kFew = 64;
    if (waiting.size() > kFew) {  // too slow for a poller
      DeferFree(std::make_unique<decltype(waiting)>(std::move(waiting)));
    }
    if (!item_.has_value() && end_) return call_.FinishIncomplete(status);
    RecordIncomplete(status);
    call_.Finish(status);
  }

  void RecordIncomplete(const Status& status) override {
    stats_.begun = info().arrived;
    if (info().span != nullptr) {
      info().span->AddRequest(header_, stats_, status);
    }
    service_.Record(info(), header_, stats_, status);
  }

  // Sends the next message of the response. The last one carries the status.
  void SendNext() {
    const grpc::ByteBuffer& message = outgoing_[sent_++];
    if (sent_ < outgoing_.size()) return call_.Write(message);
    RecordIncomplete({});
    call_.Finish(message);
  }

  void OnWritten(bool ok) override {
    ok ? SendNext() : call_.FinishIncomplete(Cancelled());
  }

  HeldBytes held_;
  InFlightLimiter::Charge charge_;  // the header and its cost
  ReadAheadQueue<Item> queue_;
  grpc::Alarm alarm_;
  std::atomic<bool> delayed_ = false;  // the alarm is set
  OwningTag<StreamCall, &StreamCall::OnAlarm> alarm_tag_;
  bool has_header_ = false;   // the header was received
  std::optional<Item> item_;  // input of the next step
  bool end_ = false;          // all messages were taken
  int64_t received_ = 0;      // bytes
  int64_t start_bytes_ = 0;   // received bytes needed to start
  v1::TopKRequest header_;
  v1::OutputOptions output_;  // as sent, with shared memory regions
  Size output_bytes_;
  std::optional<PreparedRequest> prepared_;  // until its tensor is started
  std::optional<TensorStream> tensor_;
  RequestStats stats_;
  std::vector<grpc::ByteBuffer> outgoing_;
  size_t sent_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<CallHandler> MakeStreamCall(TopKService& service, Call& call) {
  return std::make_unique<StreamCall>(service, call);
}

}  // namespace topk
