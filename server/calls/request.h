// One request, from its bytes to its response, whatever its protocol.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/codec.h"
#include "server/calls/raw_message.h"
#include "server/calls/topk_service.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A request in its stages: admitted with its bytes, prepared, charged for its
/// cost, run, recorded.
///
/// Every step before Run() takes constant time when a poller does it. The
/// request holds its charge until it is destroyed. Not thread-safe: one step at
/// a time.
class Request {
 public:
  /// The service and the call outlive it.
  Request(TopKService& service, AdmittedCall& admitted,
          std::unique_ptr<Codec> codec)
      : service_(service),
        admitted_(admitted),
        codec_(std::move(codec)),
        memory_(service.shared_objects()) {}

  /// Takes the message that arrived at `when`, of a request that began at
  /// `begun`, and admits its bytes. Also charges the memory of its slices, and
  /// `own_bytes` for the request itself. A message that `waits` is compacted
  /// first. RESOURCE_EXHAUSTED: see AdmissionController::AdmitRequest().
  Status Admit(grpc::ByteBuffer& message, RequestStats::Clock::time_point begun,
               RequestStats::Clock::time_point when, bool waits,
               int64_t own_bytes = 0);

  /// Reads the message, checks the request and charges its cost. Returns
  /// nothing if that takes too long for a poller: then a worker prepares it.
  /// Errors: those of the protocol, of Engine::Prepare(), of opening shared
  /// memory, and RESOURCE_EXHAUSTED if there is no room for the cost.
  std::optional<Status> Prepare(Reader reader);

  /// Whether Prepare() returned OK.
  bool prepared() const { return prepared_.has_value(); }

  /// Returns the CPU time of the next step in nanoseconds: of Run() if the
  /// request is prepared, else of preparing an ordinary request.
  Size nanoseconds();
  /// Whether a poller may run it: it takes little time and output.
  bool RunsAtOnce() const;

  /// Computes and writes the response. Errors: see Engine::Run(), and those of
  /// shared memory. REQUIRES: Prepare() returned OK.
  Status Run(const Cancellation* cancellation);

  /// The response's message, after Run() or WriteError().
  grpc::ByteBuffer& response() { return response_; }

  /// Writes the message of an error. It is empty for unary methods.
  void WriteError(const Status& status);

  /// Counts and logs it, with the status with which it ends.
  void Record(const CallInfo& call, const Status& status);

  /// Frees the message of a request that was rejected. First reads what
  /// WriteError() and Record() report, if that takes little memory and time.
  void KeepIdOnly();

  /// Frees all but the response. Only response() may be called afterwards.
  void ReleaseMessage();

 private:
  std::optional<Status> ReadAndPrepare(Reader reader);
  Status PrepareRead();

  TopKService& service_;
  AdmittedCall& admitted_;
  std::unique_ptr<Codec> codec_;
  InFlightLimiter::Charge charge_;
  int64_t own_bytes_ = 0;
  grpc::ByteBuffer message_;  // `read_` points into it
  RawMessage<v1::TopKRequest> read_;
  RequestMemory memory_;
  std::optional<PreparedRequest> prepared_;
  grpc::ByteBuffer response_;
  RequestStats stats_;
};

}  // namespace topk
