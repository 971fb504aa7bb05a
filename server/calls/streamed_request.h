// The request of a StreamTopK call, whose tensor arrives in chunks.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/held_bytes.h"
#include "server/calls/raw_message.h"
#include "server/calls/topk_service.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Reads the header, starts the tensor, reads the data and computes the
/// response, in this order. Not thread-safe.
class StreamedRequest {
 public:
  /// What the request needs next.
  enum class State {
    kHeader,  // the first message
    kStart,   // Start(), once start_bytes() bytes were received
    kData,    // messages with data, and Finish() after the last one
  };

  /// All arguments must outlive the request. `held` charges for the messages.
  StreamedRequest(TopKService& service, AdmittedCall& admitted, HeldBytes& held,
                  const Cancellation& cancellation)
      : service_(service),
        admitted_(admitted),
        held_(held),
        cancellation_(cancellation),
        charge_(admitted.reservation) {}

  State state() const { return state_; }

  /// Admits the request. `bytes` is the size of its header, `own_bytes` the
  /// memory of the header's slices. Returns the errors of
  /// AdmissionController::AdmitRequest().
  Status Admit(int64_t bytes, int64_t own_bytes) {
    return service_.admission().AdmitRequest(admitted_, bytes, own_bytes,
                                             charge_);
  }

  /// Reads the header or a message with data. Returns kNeedsWorker if that
  /// takes too long for a poller, and otherwise the errors of the message, of
  /// Engine::PrepareStream() and of TensorStream::Feed(). REQUIRES: the state
  /// is kHeader or kData.
  StepStatus Read(grpc::ByteBuffer& message, Reader reader) {
    return state_ == State::kHeader ? ReadHeader(message, reader)
                                    : ReadData(message, reader);
  }

  /// The number of bytes that must be received before Start() may run. A stream
  /// is charged at most a multiple of the bytes that the client has sent,
  /// because a header alone may announce gigabytes. 0 in state kHeader.
  int64_t start_bytes() const { return start_bytes_; }

  /// Charges and allocates the memory of the tensor. `received` is the number
  /// of bytes received so far. If `received` is less than start_bytes(), the
  /// stream must have ended. Returns INVALID_ARGUMENT if the stream has ended
  /// too early, RESOURCE_EXHAUSTED if there is too little memory. REQUIRES: the
  /// state is kStart.
  Status Start(int64_t received);

  /// Computes the response and serializes the messages to send. Call at the end
  /// of the stream. REQUIRES: the state is not kStart.
  Status Finish(std::vector<grpc::ByteBuffer>& messages);

  /// Returns the CPU time of the next step in nanoseconds: Start(), or Read()
  /// of a message of `message_bytes` bytes, or Finish() without a message.
  Size NextNanoseconds(std::optional<int64_t> message_bytes) const;

  RequestStats& stats() { return stats_; }

  /// Counts and logs the request with its final status.
  void Record(const CallInfo& call, const Status& status);

 private:
  StepStatus ReadHeader(grpc::ByteBuffer& message, Reader reader);
  StepStatus ReadData(grpc::ByteBuffer& message, Reader reader);
  Status OpenOutputs(RequestMemory& memory);

  TopKService& service_;
  AdmittedCall& admitted_;
  HeldBytes& held_;
  const Cancellation& cancellation_;
  InFlightLimiter::Charge charge_;  // of the header and the tensor
  State state_ = State::kHeader;
  int64_t start_bytes_ = 0;
  v1::TopKRequest header_;
  v1::OutputOptions output_;  // as sent, with shared memory regions
  Size input_bytes_;
  Size output_bytes_;
  Size tensor_bytes_;                        // memory that Start() charges
  std::optional<PreparedRequest> prepared_;  // set in state kStart
  std::optional<TensorStream> tensor_;       // set in state kData
  RequestStats stats_;
};

}  // namespace topk
