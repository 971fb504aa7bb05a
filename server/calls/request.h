// Handles one request from receipt to response, for any protocol.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/base/checked.h"
#include "core/engine.h"
#include "server/admission/call_info.h"
#include "server/calls/handlers.h"
#include "server/calls/parsed_message.h"
#include "server/calls/shared_state.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/request_stats.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Handles one request: admits, parses, computes and records it. The memory of
/// the request counts as in flight until ReleaseMessage(), and the memory of
/// the response until this object is destroyed. Not thread-safe.
class TensorRequest {
 public:
  /// The request began at `begun`. `state`, `call` and `cancellation` must
  /// outlive it. `cancellation` ends Run() with CANCELLED.
  TensorRequest(SharedState& state, const CallInfo& call,
                const Cancellation& cancellation, std::unique_ptr<Codec> codec,
                RequestStats::Clock::time_point begun)
      : state_(state),
        call_(call),
        cancellation_(cancellation),
        codec_(std::move(codec)),
        charge_(call.slot),
        memory_(state.shared_objects.get(), state.cuda_memory()) {
    stats_.begun = begun;
  }

  /// Takes the contents of `message`, which is not compressed. Adds the
  /// message, the memory of its slices and `own_bytes` (for the request itself)
  /// to the bytes in flight. Returns the errors of
  /// AdmissionController::AdmitRequest(). After an error, only WriteError(),
  /// Record() and ReleaseMessage() may be called.
  Status Admit(grpc::ByteBuffer& message, int64_t own_bytes = 0);

  /// Parses and validates the request, and adds the memory for parsing and for
  /// Run() to the bytes in flight. Returns protocol errors, and errors from
  /// Engine::Prepare(), from opening shared memory and from
  /// InFlightLimiter::Charge::Add().
  Status Prepare();

  /// Returns whether a poller may call Prepare(), i.e. whether the message is
  /// short. Parsing a short message takes at most 15 ms.
  bool MayPrepareOnPoller() const {
    return static_cast<int64_t>(message_.Length()) <= kShortBytes;
  }

  /// Estimates the CPU time of the next step in nanoseconds. The next step is
  /// Run() if the request is prepared, otherwise Prepare().
  Size nanoseconds();
  /// Returns whether a poller may call Run(), i.e. whether Run() takes little
  /// time, has a small output and does not access shared or GPU memory.
  /// REQUIRES: Prepare() returned OK.
  bool MayRunOnPoller() const;

  /// Computes and serializes the response. Returns errors from Engine::Run()
  /// and from accessing shared memory. REQUIRES: Prepare() returned OK.
  Status Run();

  /// The serialized response. Valid after Run() or WriteError().
  grpc::ByteBuffer& response() { return response_; }

  /// Serializes an error as the response. Used by streams that continue after
  /// an error.
  void WriteError(const Status& status);

  /// Counts and logs the request with its final status.
  void Record(const Status& status);

  /// Frees everything except the response. Only response() may be called
  /// afterwards. Call as soon as the response is computed, because the client
  /// may receive the response arbitrarily late.
  void ReleaseMessage();

 private:
  // The maximum size of messages and outputs that pollers handle, in bytes.
  static constexpr int64_t kShortBytes = int64_t{128} << 10;

  void KeepIdOnly();
  Status PrepareRead();
  Status Compute();

  SharedState& state_;
  const CallInfo& call_;
  const Cancellation& cancellation_;
  std::unique_ptr<Codec> codec_;
  InFlightLimiter::Charge charge_;
  int64_t own_bytes_ = 0;
  grpc::ByteBuffer message_;  // `read_` points into it
  ParsedMessage<v1::TopKRequest> read_;
  RequestMemory memory_;
  std::optional<PreparedRequest> prepared_;
  grpc::ByteBuffer response_;
  RequestStats stats_;
};

}  // namespace topk
