// Admits, traces, records and cancels calls.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "server/admission/admission_controller.h"
#include "server/admission/in_flight_limiter.h"
#include "server/calls/call.h"
#include "server/calls/shared_state.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/call_span.h"
#include "topk/status.h"

namespace topk {

/// The base class for calls of topk.v1 and of the Open Inference Protocol.
/// Classes of kind kUnary override OnRequest(). All others override
/// OnMessage().
class ServiceCall : public CallHandler, private Observer {
 public:
  /// A kMany call is a stream of requests. Each request has its own span.
  enum class Kind { kUnary, kStream, kMany };

  /// `state` must outlive the call.
  ServiceCall(SharedState& state, Call& call, Kind kind);
  ~ServiceCall() override;

 protected:
  /// Called with the message of a unary call.
  virtual void OnRequest(grpc::ByteBuffer& message) { (void)message; }
  /// Like OnRead(), but `message` is not compressed. Runs on a worker if the
  /// client compressed the message. By default, passes the message to
  /// OnRequest(). Ends the call instead if there is no message. If the message
  /// is late, rechecks the credentials.
  virtual void OnMessage(bool ok, grpc::ByteBuffer& message);
  /// Ends a stream with `status`, the error that a new call from the same
  /// caller would get now. UNAVAILABLE means that the server is draining, and
  /// work that has begun may finish. May be called repeatedly, from any thread.
  virtual void Interrupt(const Status& status) { (void)status; }
  /// Counts and logs the call's request with its final status. By default, the
  /// request has no properties. Called when an admitted call ends.
  virtual void RecordRequest(const Status& status);

  /// Runs work() on a worker. Keeps the call alive until work() returns.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work) {
    EnqueueJob(nanoseconds, [work] { return work(), false; });
  }
  /// Like Enqueue(), for work whose cost is `nanoseconds`. The time that the
  /// work takes counts towards the speed estimate of the queue.
  template <class Work>
  void EnqueueComputation(Size nanoseconds, Work work) {
    EnqueueJob(nanoseconds,
               [this, work] { return work(), call_.CheckAlive().ok(); });
  }
  /// Replaces CANCELLED with DEADLINE_EXCEEDED if the deadline has passed.
  Status WithCancelCause(const Status& status) const {
    return status.code == Code::kCancelled ? call_.CheckAlive() : status;
  }
  const CallInfo& info() const { return info_; }
  AdmittedCall& admitted() { return admitted_; }

  SharedState& state_;
  /// The call, which owns this handler.
  Call& call_;

 private:
  void EnqueueJob(Size nanoseconds, WorkQueue::Work work);
  void OnArrival() final;
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void DecompressMessage(grpc::ByteBuffer& message);
  void RefuseMessage(const Status& status, grpc::ByteBuffer& message);
  void Record(const Status& status) final;
  void OnChange() final;
  void ContinueTrace();

  const Kind kind_;
  // These members are set when the call arrives, before other threads use them.
  std::optional<Observers::Entry> stream_;
  bool has_begun_ = false;  // the subclass may have work to record
  CallInfo info_;
  AdmittedCall admitted_;
  // Charges a message while it is being decompressed.
  InFlightLimiter::Charge decompressing_{admitted_.slot};
  std::unique_ptr<CallSpan> span_;     // null unless the call is sampled
  std::atomic<bool> revoked_ = false;  // set by OnChange()
};

}  // namespace topk
