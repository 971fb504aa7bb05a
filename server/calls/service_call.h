// Admits, traces and records calls, and decompresses their messages.
#pragma once

#include <utility>

#include "server/admission/call_info.h"
#include "server/admission/in_flight_limiter.h"
#include "server/calls/call.h"
#include "server/calls/shared_state.h"
#include "topk/status.h"

namespace topk {

/// The base class for calls of topk.v1 and of the Open Inference Protocol.
/// Streams derive from StreamingCall.
class ServiceCall : public CallHandler {
 public:
  /// Each request of a call with `many` requests has its own span. `state` must
  /// outlive the call.
  ServiceCall(SharedState& state, Call& call, bool many = false);
  ~ServiceCall() override;

 protected:
  /// Admits the call, and starts the first read or ends the call.
  void OnArrival() override;
  /// Like OnRead(), but `message` is not compressed. Runs on a worker if the
  /// client compressed the message.
  virtual void OnMessage(bool ok, grpc::ByteBuffer& message) = 0;
  /// Ends the call early, also for a message that cannot be decompressed. If
  /// `drains` is true, the server is draining, and work that has begun may
  /// finish.
  virtual void Interrupt(const Status& status, bool drains) {
    (void)drains;
    call_.Finish(status);
  }
  /// Returns an error if a unary call has no message (`ok` is false). If the
  /// message is late, rechecks the credentials, and clears the message if they
  /// have expired.
  Status CheckReceived(bool ok, grpc::ByteBuffer& message) const;
  /// Counts and logs the call's request with its final status, also if the call
  /// was not admitted. By default, the request has no properties.
  virtual void RecordRequest(const Status& status);

  /// Runs work() on a worker. Keeps the call alive until work() returns. If
  /// `computes` is true, `nanoseconds` is the cost of a computation, which
  /// counts towards the speed estimate of the queue.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work, bool computes = false) {
    state_.work.Enqueue(
        info_.caller.key, nanoseconds,
        [self = call_.shared_from_this(), work = std::move(work), computes] {
          work();
          return computes && self->CheckAlive().ok();
        });
  }
  /// Replaces CANCELLED with DEADLINE_EXCEEDED if the deadline has passed.
  Status WithCancelCause(const Status& status) const {
    return status.code == Code::kCancelled ? call_.CheckAlive() : status;
  }

  SharedState& state_;
  /// The call, which owns this handler.
  Call& call_;
  /// Set when the call arrives, before other threads use it.
  CallInfo info_;
  const bool many_;

 private:
  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void DecompressMessage(grpc::ByteBuffer& message);
  void RefuseMessage(const Status& status, grpc::ByteBuffer& message);
  void Record(const Status& status) final;

  // Charges a message while it is being decompressed.
  InFlightLimiter::Charge decompressing_{info_.slot};
};

}  // namespace topk
