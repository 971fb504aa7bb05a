// A call of a service that computes: admitted, traced, recorded, cancelled.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/status.h"
#include "server/admission/admission_controller.h"
#include "server/calls/call.h"
#include "server/calls/topk_service.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/call_span.h"

namespace topk {

/// The base of the calls of topk.v1 and of the Open Inference Protocol.
class ServiceCall : public CallHandler, private OpenStream {
 public:
  /// kMany is a stream whose messages are requests, each with its own span.
  enum class Kind { kUnary, kStream, kMany };

  /// The service must outlive the call.
  ServiceCall(TopKService& service, Call& call, Kind kind);
  ~ServiceCall() override;

 protected:
  /// Ends a stream that would not be admitted now. UNAVAILABLE while the server
  /// drains: what has begun may finish. Called by any thread, any number of
  /// times.
  virtual void Interrupt(const Status& status) { (void)status; }
  void RecordIncomplete(const Status& status) override;

  /// Ends the call with an error and records the error, before any work on the
  /// call has started.
  void Refuse(const Status& status);
  /// Enqueues work() for a worker and keeps the call alive until it returns.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work) {
    service_.work().Enqueue(admitted_.caller.key, nanoseconds,
                            [this, self = call_.shared_from_this(), work] {
                              work();
                              // A stream goes on with further steps, whose cost
                              // is not known before.
                              return kind_ != Kind::kStream &&
                                     call_.CheckAlive().ok();
                            });
  }
  /// Replaces CANCELLED with its cause (deadline or cancellation).
  Status WithCancelCause(const Status& status) const {
    return status.code == Code::kCancelled ? call_.CheckAlive() : status;
  }
  /// The data that all requests of the call share.
  const CallInfo& info() const { return info_; }
  /// The caller and its reservation.
  AdmittedCall& admitted() { return admitted_; }

  TopKService& service_;
  /// The call, which owns this.
  Call& call_;

 private:
  void OnArrival() final;
  void RecordEnd(const Status& status) final;
  void Recheck() final;
  void ContinueTrace();

  const Kind kind_;
  std::optional<OpenCalls::Streams::iterator> stream_;
  CallInfo info_;
  AdmittedCall admitted_;
  std::unique_ptr<CallSpan> span_;     // null unless the call is sampled
  std::atomic<bool> revoked_ = false;  // found by a recheck
};

}  // namespace topk
