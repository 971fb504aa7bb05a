#include "server/calls/streamed_request.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/text.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/write_message.h"
#include "server/telemetry/call_span.h"

namespace topk {
namespace {

// A stream is charged at most this multiple of the bytes received from its
// client.
constexpr int64_t kChargedPerByte = 64;

Status HeaderMissing(const char* field) {
  return InvalidArgument("HEADER_MISSING", field,
                         "the first message of a stream must be the header");
}

}  // namespace

StepStatus StreamedRequest::ReadHeader(grpc::ByteBuffer& message,
                                       Reader reader) {
  RawMessage<v1::TopKRequestChunk> chunk;
  const auto charge = [this](Size bytes) { return charge_.Add(bytes); };
  const StepStatus read = ReadRaw(message, reader, charge, chunk);
  if (NeedsWorker(read) || !read->ok()) return read;
  if (!chunk.message.has_header()) {
    const bool has_data = chunk.message.has_data() || !chunk.data.empty();
    return HeaderMissing(has_data ? "data" : "header");
  }
  header_ = std::move(*chunk.message.mutable_header());
  output_ = header_.output();
  // Open the shared memory only to report its errors early. Idle streams must
  // not keep it mapped, or they could use up all mappings.
  RequestMemory memory(service_.shared_objects());
  if (Status s = OpenOutputs(memory); !s.ok()) return s;
  Result<PreparedRequest> prepared = service_.engine().PrepareStream(header_);
  if (!prepared.ok()) return prepared.status();
  const Cost& cost = prepared->cost;
  input_bytes_ = cost.input_bytes;
  output_bytes_ = cost.output_bytes;
  tensor_bytes_ = cost.output_bytes + cost.working_bytes;
  {
    // Checks that the memory is available. Start() charges it.
    InFlightLimiter::Charge available(admitted_.reservation);
    if (Status s = available.Add(tensor_bytes_); !s.ok()) return s;
  }
  start_bytes_ =
      std::min(tensor_bytes_.value() / kChargedPerByte, input_bytes_.value());
  prepared_ = *std::move(prepared);
  state_ = State::kStart;
  return Status();
}

Status StreamedRequest::Start(int64_t received) {
  if (received < start_bytes_) {
    return InvalidArgument("DATA_LENGTH", "tensor.data",
                           StrCat("the stream has ended after ", received,
                                  " bytes with its header; the tensor has ",
                                  input_bytes_.value(), " bytes of data"));
  }
  if (Status s = charge_.Add(tensor_bytes_); !s.ok()) return s;
  // Covers the messages read ahead and the messages being computed.
  constexpr int64_t kAhead = 2 * kMaxReadAheadBytes;
  const Size ahead =
      std::min({input_bytes_, Size(kAhead), Size(received) * kChargedPerByte});
  if (Status s = held_.Reserve(ahead); !s.ok()) return s;
  Result<TensorStream> tensor = TensorStream::Start(
      service_.engine(), *std::move(prepared_), &cancellation_);
  prepared_.reset();
  if (!tensor.ok()) return tensor.status();
  tensor_.emplace(*std::move(tensor));
  stats_.computing = true;
  state_ = State::kData;
  return {};
}

StepStatus StreamedRequest::ReadData(grpc::ByteBuffer& message, Reader reader) {
  RawMessage<v1::TopKRequestChunk> chunk;
  InFlightLimiter::Charge parsed(admitted_.reservation);
  const auto charge = [&](Size bytes) { return parsed.Add(bytes); };
  const StepStatus read = ReadRaw(message, reader, charge, chunk);
  if (NeedsWorker(read) || !read->ok()) return read;
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
  for (const auto& slice : chunk.data) {
    stats_.tensor_bytes += static_cast<int64_t>(slice.size());
    if (Status s = tensor_->Feed(slice); !s.ok()) return s;
  }
  return Status();
}

Status StreamedRequest::Finish(std::vector<grpc::ByteBuffer>& messages) {
  if (state_ == State::kHeader) return HeaderMissing("header");
  stats_.Arrive(RequestStats::Clock::now());
  Result<v1::TopKResponse> response = tensor_->Finish();
  if (!response.ok()) return response.status();
  stats_.AddResponse(*response);
  RequestMemory memory(service_.shared_objects());
  *header_.mutable_output() = output_;
  if (Status s = OpenOutputs(memory); !s.ok()) return s;
  if (Status s = memory.Deliver(*response); !s.ok()) return s;
  messages = WriteChunks(*std::move(response));
  stats_.RecordStage(Stage::kEncode);
  return {};
}

Status StreamedRequest::OpenOutputs(RequestMemory& memory) {
  return memory.OpenOutputs(header_, admitted_.caller.is_local);
}

Size StreamedRequest::NextNanoseconds(
    std::optional<int64_t> message_bytes) const {
  constexpr int64_t kMessage = 1000;
  if (state_ == State::kHeader) return kMessage;
  if (state_ == State::kStart) {
    return kMessage + ZeroFillNanoseconds(tensor_bytes_);
  }
  if (message_bytes.has_value()) {
    return kMessage + tensor_->FeedNanoseconds(*message_bytes);
  }
  // The last term: serializing the response, or copying it to shared memory.
  return kMessage + tensor_->FinishNanoseconds() +
         CopyNanoseconds(header_.has_output()
                             ? output_bytes_
                             : Size(output_bytes_.value() / 64));
}

void StreamedRequest::Record(const CallInfo& call, const Status& status) {
  stats_.begun = call.arrived;
  if (call.span != nullptr) call.span->AddRequest(header_, stats_, status);
  service_.Record(call, header_, stats_, status);
}

}  // namespace topk
