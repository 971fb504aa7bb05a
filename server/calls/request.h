// One request, from its bytes to its response: what all protocols share.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>

#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "server/admission/admission_controller.h"
#include "server/calls/raw_message.h"
#include "server/calls/topk_service.h"
#include "server/shared_memory/request_memory.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A request on its way: admitted with its bytes, prepared, charged for what it
/// costs, run, recorded. A protocol derives from it to read and to write.
///
/// Every step before Run() takes constant time when a poller does it. The
/// request holds its charge until it is destroyed. Not thread-safe: one step at
/// a time.
class Request {
 public:
  /// All outlive it.
  Request(TopKService& service, AdmittedCall& admitted)
      : service_(service),
        admitted_(admitted),
        memory_(service.shared_objects()) {}
  virtual ~Request() = default;

  /// Takes the message that arrived at `when` and admits its bytes, and charges
  /// `own_bytes` for the request itself.
  /// RESOURCE_EXHAUSTED: see AdmissionController::AdmitRequest().
  Status Admit(grpc::ByteBuffer& message, RequestStats::Clock::time_point call,
               RequestStats::Clock::time_point when, int64_t own_bytes = 0);

  /// Reads the message, checks the request and charges its cost. Returns
  /// nothing if that takes too long for a poller: then a worker prepares it.
  /// Errors: those of the protocol, of Engine::Prepare(), of opening shared
  /// memory, and RESOURCE_EXHAUSTED if there is no room for the cost.
  std::optional<Status> Prepare(Reader reader);

  /// Whether Prepare() returned OK.
  bool prepared() const { return prepared_.has_value(); }

  /// The CPU time of Run(), once prepared, in nanoseconds; before, that of
  /// preparing.
  Size nanoseconds() const;
  /// Whether a poller may run it: it takes little time and output.
  bool RunsAtOnce() const;

  /// Computes and writes the response. Errors: see Engine::Run(), and those of
  /// shared memory. REQUIRES: Prepare() returned OK.
  Status Run(const Cancellation* cancellation);

  /// The response's message, after Run() or WriteError().
  grpc::ByteBuffer& response() { return response_; }

  /// Writes a message that says an error, for protocols that have one.
  virtual void WriteError(const Status& status) { (void)status; }

  /// Counts and logs it, with the status with which it ends.
  virtual void Record(const CallInfo& call, const Status& status);

  /// Frees the message of a request that was rejected, but reads of it first
  /// what WriteError() and Record() say, as far as a poller may.
  void KeepIdOnly();

  /// Frees all but the response.
  void ReleaseMessage();

 protected:
  /// Reads message() into request() and data(); see ReadRaw().
  virtual std::optional<Status> Read(Reader reader,
                                     const ChargeParsed& charge) = 0;
  /// Returns the message of a response.
  virtual grpc::ByteBuffer Write(
      std::shared_ptr<v1::TopKResponse> response) = 0;
  /// Returns an error in the protocol's terms.
  virtual Status Translated(Status status) const { return status; }
  /// The request and its data, once read.
  virtual v1::TopKRequest& request() = 0;
  virtual Pieces data() const = 0;
  /// Frees what was read; the tensor's data alone.
  virtual void ReleaseRead() = 0;
  virtual void ReleaseData() = 0;

  grpc::ByteBuffer& message() { return message_; }
  const RequestStats& stats() const { return stats_; }
  TopKService& service_;

 private:
  std::optional<Status> ReadAndPrepare(Reader reader);
  Status PrepareRead();

  AdmittedCall& admitted_;
  InFlightLimiter::Charge charge_;
  int64_t message_bytes_ = 0;
  int64_t own_bytes_ = 0;
  grpc::ByteBuffer message_;
  RequestMemory memory_;
  std::optional<PreparedRequest> prepared_;
  grpc::ByteBuffer response_;
  RequestStats stats_;
};

}  // namespace topk
