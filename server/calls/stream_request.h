// Handles the request of a StreamTopK call.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "server/calls/parsed_message.h"
#include "server/calls/read_ahead_queue.h"
#include "server/calls/shared_state.h"
#include "server/calls/write_message.h"
#include "server/shared_memory/request_memory.h"

namespace topk {

/// A request that arrives as a header and chunks of its tensor. Call in this
/// order: Admit(), Read() for the header, Start(), Read() for each chunk,
/// Finish(). Only one thread at a time may use the request.
class StreamRequest {
 public:
  /// All arguments must outlive the request.
  StreamRequest(SharedState& state, const CallInfo& call,
                const Cancellation& cancellation)
      : state_(state),
        call_(call),
        cancellation_(cancellation),
        charge_(call.slot) {}

  /// Admits a request with a header of `bytes` bytes, plus `other_bytes` bytes
  /// of overhead. Returns an error if AdmissionController rejects the request.
  Status Admit(int64_t bytes, int64_t other_bytes) {
    return state_.admission.AdmitRequest(call_, bytes, other_bytes, charge_);
  }

  /// Begins to measure the next step, whose input arrived at `when`.
  void Arrive(RequestStats::Clock::time_point when) {
    stats_.Arrive(std::max(when, stats_.stages_end()));
    stats_.RecordStage(Stage::kQueue);
  }

  /// Estimates the CPU time of the next step: Start() if MustStart(), otherwise
  /// Read() of `message`, or Finish() if `message` is null. If the step
  /// accesses shared memory, the result exceeds kSmallNanoseconds, because
  /// other processes can delay the access.
  Size Nanoseconds(grpc::ByteBuffer* message) const {
    constexpr int64_t kStep = 1000;
    constexpr int64_t kSlice = 20;
    if (prepared_) return kStep + ZeroFillNanoseconds(TensorBytes());
    if (message != nullptr) {
      const Size parse = kStep + CountSlices(*message) * kSlice;
      return tensor_ ? parse + tensor_->FeedNanoseconds(message->Length())
                     : parse;
    }
    if (!tensor_) return kStep;
    const Size compute = kStep + tensor_->FinishNanoseconds();
    // Add the time to copy the response into its regions or into a message.
    return output_.values_region_case() != 0 ||
                   output_.indices_region_case() != 0
               ? compute + CopyNanoseconds(cost_.output_bytes) +
                     WorkQueue::kSmallNanoseconds
               : compute + CopyNanoseconds(cost_.output_bytes.value() / 64);
  }

  /// Reads the header, or passes a chunk of the tensor to the engine.
  Status Read(grpc::ByteBuffer& message) {
    ParsedMessage<v1::TopKRequestChunk> chunk;
    InFlightLimiter::Charge parsed(call_.slot);
    InFlightLimiter::Charge& charge = tensor_ ? parsed : charge_;
    const auto add = [&charge](Size bytes) { return charge.Add(bytes); };
    Status read = ParseMessage(message, add, chunk);
    if (read.ok()) read = tensor_ ? ReadData(chunk) : ReadHeader(chunk);
    stats_.RecordStage(Stage::kDecode);
    return read;
  }

  /// Returns whether the next step is Start(). Call Start() once start_bytes()
  /// bytes have been received, or the stream has ended.
  bool MustStart() const { return prepared_.has_value(); }
  int64_t start_bytes() const {
    return std::min(TensorBytes().value() / kChargedPerByte,
                    cost_.input_bytes.value());
  }

  /// Returns the number of bytes to reserve for messages that are queued or
  /// being processed. `received` is the number of bytes received on the stream
  /// so far.
  Size AheadBytes(int64_t received) const {
    constexpr int64_t kAhead = 2 * kMaxReadAheadBytes;
    return std::min(
        {cost_.input_bytes, Size(kAhead), Size(received) * kChargedPerByte});
  }

  /// Reserves and allocates the memory for the tensor.
  Status Start(int64_t received) {
    if (received < start_bytes()) {  // the stream has ended
      return InvalidArgument("DATA_LENGTH", "tensor.data",
                             StrCat("the stream ended after messages of ",
                                    received, " bytes, but the tensor has ",
                                    cost_.input_bytes.value(), " bytes"));
    }
    if (Status s = charge_.Add(TensorBytes()); !s.ok()) return s;
    auto tensor = TensorStream::Start(
        state_.engine, *std::exchange(prepared_, {}), &cancellation_);
    if (!tensor.ok()) return tensor.status();
    tensor_ = *std::move(tensor);
    stats_.computing = true;
    return {};
  }

  /// Computes the response and serializes it to the messages to send.
  Status Finish(std::vector<grpc::ByteBuffer>& to) {
    if (!tensor_) return HeaderMissing("header");
    stats_.Arrive(RequestStats::Clock::now());
    Result<v1::TopKResponse> response = tensor_->Finish();
    if (!response.ok()) return response.status();
    stats_.AddResponse(*response);
    RequestMemory memory(state_.shared_objects.get(), state_.cuda_memory());
    *header_.mutable_output() = output_;
    const bool is_local = call_.caller.is_local;
    if (Status s = memory.OpenOutputs(header_, is_local); !s.ok()) return s;
    const auto values = static_cast<int64_t>(response->values().data().size());
    const auto indices =
        static_cast<int64_t>(response->indices().data().size());
    if (Status s = memory.SetSizes(values, indices); !s.ok()) return s;
    if (Status s = memory.Deliver(*response, &cancellation_); !s.ok()) return s;
    to = WriteChunks(*std::move(response));
    stats_.RecordStage(Stage::kEncode);
    return {};
  }

  /// Counts and logs the request with its final status.
  void Record(const Status& status) {
    stats_.begun = call_.arrived;
    state_.Record(call_, header_, stats_, status);
  }

 private:
  // A stream may reserve at most this many bytes of memory per byte received.
  // Otherwise, a small header could reserve gigabytes.
  static constexpr int64_t kChargedPerByte = 64;

  static Status HeaderMissing(const char* field) {
    return InvalidArgument("HEADER_MISSING", field,
                           "the first message of a stream must be the header");
  }

  // The number of bytes that Start() reserves.
  Size TensorBytes() const { return cost_.output_bytes + cost_.working_bytes; }

  Status ReadHeader(ParsedMessage<v1::TopKRequestChunk>& chunk) {
    if (!chunk.message.has_header()) {
      const bool has_data = chunk.message.has_data() || !chunk.data.empty();
      return HeaderMissing(has_data ? "data" : "header");
    }
    header_ = std::move(*chunk.message.mutable_header());
    output_ = header_.output();
    // Open the regions only to report their errors early. Do not keep them
    // mapped, because idle streams could use up all mappings.
    RequestMemory memory(state_.shared_objects.get(), state_.cuda_memory());
    const bool is_local = call_.caller.is_local;
    if (Status s = memory.OpenOutputs(header_, is_local); !s.ok()) return s;
    Result<PreparedRequest> prepared = state_.engine.PrepareStream(header_);
    if (!prepared.ok()) return prepared.status();
    const Plan& plan = *prepared->plan;
    stats_.k = plan.k;
    if (Status s = memory.SetSizes(plan.values.bytes, plan.indices.bytes);
        !s.ok()) {
      return s;
    }
    cost_ = prepared->cost;
    cost_.working_bytes += memory.buffer_bytes();
    // For now, only check that there is enough memory. Start() reserves it.
    InFlightLimiter::Charge available(call_.slot);
    if (Status s = available.Add(TensorBytes()); !s.ok()) return s;
    prepared_ = *std::move(prepared);
    return {};
  }

  Status ReadData(const ParsedMessage<v1::TopKRequestChunk>& chunk) {
    if (chunk.message.has_header()) {
      return InvalidArgument("HEADER_REPEATED", "header",
                             "only the first message may have a header");
    }
    if (chunk.data.empty() && !chunk.message.has_data()) {
      return InvalidArgument("DATA_MISSING", "data",
                             "every message after the header must have data");
    }
    for (const auto& slice : chunk.data) {
      stats_.tensor_bytes += static_cast<int64_t>(slice.size());
      if (Status s = tensor_->Feed(slice); !s.ok()) return s;
    }
    return {};
  }

  SharedState& state_;
  const CallInfo& call_;
  const Cancellation& cancellation_;
  InFlightLimiter::Charge charge_;  // of the header and the tensor
  v1::TopKRequest header_;
  v1::OutputOptions output_;                 // as sent, with the regions
  Cost cost_;                                // zero until the header was read
  std::optional<PreparedRequest> prepared_;  // from the header until Start()
  std::unique_ptr<TensorStream> tensor_;     // from Start()
  RequestStats stats_;
};

}  // namespace topk
