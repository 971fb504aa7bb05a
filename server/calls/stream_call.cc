#include "server/calls/stream_call.h"

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/calls/raw_message.h"
#include "server/calls/streaming_call.h"
#include "server/shared_memory/request_memory.h"

namespace topk {
namespace {

// Reads the header out of the first message. INVALID_ARGUMENT if it has none.
Status ReadHeader(grpc::ByteBuffer& bytes, v1::TopKRequest& header) {
  RawMessage<v1::TopKRequestChunk> chunk;
  if (Status s = ReadRaw(bytes, chunk); !s.ok()) return s;
  if (!chunk.message.has_header()) {
    const bool has_data = chunk.message.has_data() || !chunk.data.empty();
    return InvalidArgument("HEADER_MISSING", has_data ? "data" : "header",
                           "the first message of a stream must be the header");
  }
  header = std::move(*chunk.message.mutable_header());
  return {};
}

// Feeds a message after the first. INVALID_ARGUMENT if it is not data, and as
// TensorStream::Feed.
Status FeedMessage(grpc::ByteBuffer& bytes, TensorStream& tensor,
                   int64_t& tensor_bytes) {
  RawMessage<v1::TopKRequestChunk> chunk;
  if (Status s = ReadRaw(bytes, chunk); !s.ok()) return s;
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
    tensor_bytes += static_cast<int64_t>(piece.size());
    if (Status s = tensor.Feed(piece); !s.ok()) return s;
  }
  return {};
}

// Messages arrive while those before them are computed.
class StreamCall final : public StreamingCall {
 public:
  StreamCall(TopKService& service, EventLoop& loop)
      : StreamingCall(service, loop, service.method(Method::kStreamTopK)) {}

 private:
  void Accept() override { AcceptStreamTopK(service_, loop_); }

  void Work(int64_t bytes) override {
    // What is read here and now is in this processor's cache: handed over, 256
    // MiB took 1.5 times as long.
    constexpr int64_t kFaster = 32;
    const bool fast = tensor_.has_value() && tensor_->FeedsFast();
    Hold();
    const int64_t faster = fast ? kFaster : 1;
    service_.work().Run(bytes / faster, [this, faster] {
      const int64_t fed = FeedAll();
      Release();
      return fed / faster;
    });
  }

  // Takes what has been received until there is no more; returns how much.
  int64_t FeedAll() {
    std::vector<grpc::ByteBuffer> messages;
    int64_t fed = 0;
    while (true) {
      const Intake::Taken taken = Take(messages);
      if (taken.end) Answer();
      if (!taken.any) return fed;
      fed += taken.bytes;
      tally_.Arrive(taken.since);
      tally_.Lap(Stage::kQueue);
      const Status status =
          Precisely(CatchBadAlloc([&] { return Feed(messages); }));
      tally_.Lap(Stage::kDecode);
      if (!status.ok()) {
        Record(status);
        Finish(status);
        return fed;
      }
    }
  }

  Status Feed(std::vector<grpc::ByteBuffer>& messages) {
    for (grpc::ByteBuffer& message : messages) {
      if (Status s = CheckAlive(); !s.ok()) return s;
      // A tensor is admitted with its header; what follows is owed.
      const auto size = static_cast<int64_t>(message.Length());
      if (tensor_.has_value()) {
        service_.gate().Owe(visit(), size);
      } else if (Status s = service_.gate().Ask(visit(), size); !s.ok()) {
        return s;
      }
      if (Status s = tensor_.has_value()
                         ? FeedMessage(message, *tensor_, tally_.tensor_bytes)
                         : Start(message);
          !s.ok()) {
        return s;
      }
      message.Clear();  // its memory, before the next one's turn
    }
    return {};
  }

  Status Start(grpc::ByteBuffer& message) {
    if (Status s = ReadHeader(message, header_); !s.ok()) return s;
    output_ = header_.output();
    // Its mistakes now; held it is not, or idle streams would take what there
    // is for all.
    RequestMemory memory(service_.shared_objects());
    if (Status s = memory.OpenOutputs(header_); !s.ok()) return s;
    // What is read ahead, and what is worked on meanwhile.
    constexpr int64_t kAhead = 2 * Intake::kMostBytes;
    Result<TensorStream> tensor =
        TensorStream::Start(service_.engine(), header_, Computing(kAhead));
    if (!tensor.ok()) return tensor.status();
    tensor_.emplace(*std::move(tensor));
    tally_.computing = true;
    return {};
  }

  // The client has sent all that it will.
  void Answer() {
    const Status status = CatchBadAlloc([this] { return MakeAnswer(); });
    if (status.ok()) return SendNext();
    // If it was not the client that ended the stream but its end, that is what
    // the log should say; the call's end will tell.
    at_end_ = status;
    Finish(status);
    RecordEnd();
  }

  Status MakeAnswer() {
    if (!tensor_.has_value()) {
      return InvalidArgument(
          "HEADER_MISSING", "header",
          "the first message of a stream must be the header");
    }
    tally_.Arrive(Tally::Clock::now());
    Result<v1::TopKResponse> answer = tensor_->Finish();
    if (!answer.ok()) return answer.status();
    tally_.Note(*answer);
    RequestMemory memory(service_.shared_objects());
    *header_.mutable_output() = output_;
    if (Status s = memory.OpenOutputs(header_); !s.ok()) return s;
    if (Status s = memory.Deliver(*answer); !s.ok()) return s;
    outgoing_ = WriteChunks(*std::move(answer));
    tally_.Lap(Stage::kEncode);
    return {};
  }

  void Ended() override { RecordEnd(); }

  // The second of two to come here records.
  void RecordEnd() {
    if (ends_++ == 0) return;
    const Status gone = CheckAlive();
    Record(gone.ok() ? at_end_ : gone);
  }

  // Sends the next message of the answer; the status with the last one.
  void SendNext() {
    const grpc::ByteBuffer& message = outgoing_[sent_++];
    if (sent_ < outgoing_.size()) return Write(message);
    Record({});
    Finish(message);
  }

  void Sent(bool ok) override {
    if (ok) return SendNext();
    const Status status = Cancelled();
    Record(status);
    Finish(status);
  }

  void Record(const Status& status) {
    tally_.begun = info().arrived;
    service_.Record(info(), header_, tally_, status);
  }

  v1::TopKRequest header_;
  v1::OutputOptions output_;  // the header's, with its shared memory
  std::optional<TensorStream> tensor_;
  Tally tally_;
  std::vector<grpc::ByteBuffer> outgoing_;
  size_t sent_ = 0;
  Status at_end_;
  std::atomic<int> ends_ = 0;
};

}  // namespace

void AcceptStreamTopK(TopKService& service, EventLoop& loop) {
  (new StreamCall(service, loop))->Wait();
}

}  // namespace topk
